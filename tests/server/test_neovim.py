"""Neovim with the configuration in `editors/neovim`; skipped without Neovim 0.11 or newer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_lua

CONFIGURATION = Path(__file__).parents[2] / "editors" / "neovim"
NEOVIM = shutil.which("nvim")
PULL = """\
import mlx.core as mx

x = mx.zeros(3)
for _ in range(3):
    print(x.sum().item())
"""
SCRIPT = """\
vim.opt.runtimepath:prepend(vim.env.CONFIGURATION)
vim.lsp.enable("embercoach")
vim.cmd.edit("pull.py")
vim.bo.filetype = "python"
vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end, 50)
local codes = vim.tbl_map(function(one) return one.code end, vim.diagnostic.get(0))
vim.fn.writefile({ vim.json.encode(codes) }, "codes.json")
vim.cmd("qall!")
"""


def _is_recent() -> bool:
    if NEOVIM is None:
        return False
    has = [NEOVIM, "--clean", "--headless", "-c", "execute 'cquit' !has('nvim-0.11')"]
    return subprocess.run(has, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _is_recent(), reason="Neovim 0.11 or newer is not installed")
def test_neovim_shows_findings(tmp_path: Path) -> None:
    (tmp_path / "pull.py").write_text(PULL, encoding="utf-8")
    (tmp_path / "embercoach.toml").write_text("", encoding="utf-8")
    script = tmp_path / "script.lua"
    script.write_text(SCRIPT, encoding="utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "embercoach"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m embercoach "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "CONFIGURATION": str(CONFIGURATION),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    assert NEOVIM is not None
    run = [NEOVIM, "--clean", "--headless", "-c", f"luafile {script}"]
    subprocess.run(run, cwd=tmp_path, env=environment, timeout=60, capture_output=True, check=True)
    codes = json.loads((tmp_path / "codes.json").read_text(encoding="utf-8"))
    assert codes == ["GRAPH-BREAK-001"]


def test_the_configuration_is_lua() -> None:
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_lua.language()))
    text = (CONFIGURATION / "lsp" / "embercoach.lua").read_bytes()
    assert not parser.parse(text).root_node.has_error
