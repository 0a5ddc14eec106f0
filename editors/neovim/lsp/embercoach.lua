-- EmberCoach for Neovim 0.11 or newer. Copy this file to ~/.config/nvim/lsp/, and write
-- `vim.lsp.enable("embercoach")` and `vim.filetype.add({ extension = { metal = "metal" } })` in
-- init.lua.
return {
  cmd = { "embercoach", "server" },
  filetypes = { "python", "metal", "objcpp", "objc" },
  root_markers = { "embercoach.toml", "pyproject.toml", ".git" },
}
