import * as assert from "node:assert/strict";
import * as path from "node:path";
import { test } from "node:test";

import { readSettings, SettingError } from "../src/settings";

function read(values: Record<string, unknown>, folder: string | undefined = "/work") {
  return readSettings({ get: (name) => values[name] }, "/home/me", folder, path.posix);
}

test("settings that are not set have their defaults", () => {
  assert.deepEqual(read({}), {
    enable: true,
    importStrategy: "fromEnvironment",
    path: "",
    interpreter: "",
    args: [],
    workspaceDiagnostics: true,
    inlayHints: false,
  });
});

test("paths may name the home and the folder", () => {
  assert.equal(read({ path: "~/bin/embercoach" }).path, "/home/me/bin/embercoach");
  assert.equal(read({ path: "${userHome}/e" }).path, "/home/me/e");
  assert.equal(read({ interpreter: ".venv/bin/python" }).interpreter, "/work/.venv/bin/python");
  assert.equal(read({ interpreter: "${workspaceFolder}/python" }).interpreter, "/work/python");
});

const MALFORMED: Record<string, unknown>[] = [
  { path: 3 },
  { interpreter: ["python"] },
  { args: "--deadline 3" },
  { args: [3] },
  { importStrategy: "other" },
  { path: "${env:HOME}/embercoach" },
];
for (const values of MALFORMED) {
  test(`a malformed setting is an error that names it: ${JSON.stringify(values)}`, () => {
    assert.throws(() => read(values), SettingError);
    assert.throws(() => read(values), /embercoach/);
  });
}

test("a relative path needs a folder", () => {
  const configuration = { get: (name: string) => (name === "path" ? "bin/e" : undefined) };
  assert.throws(
    () => readSettings(configuration, "/home/me", undefined, path.posix),
    /needs an open folder/,
  );
});

const OF_WINDOWS = {
  "~\\bin\\embercoach.exe": "C:\\Users\\me\\bin\\embercoach.exe",
  "~/bin/embercoach": "C:\\Users\\me/bin/embercoach",
  "${userHome}\\e.exe": "C:\\Users\\me\\e.exe",
  ".venv\\Scripts\\embercoach.exe": "D:\\a b\\.venv\\Scripts\\embercoach.exe",
  ".venv/Scripts/embercoach.exe": "D:\\a b\\.venv\\Scripts\\embercoach.exe",
  "E:\\tools\\embercoach.exe": "E:\\tools\\embercoach.exe",
  "~other\\e.exe": "D:\\a b\\~other\\e.exe",
};
for (const [given, expected] of Object.entries(OF_WINDOWS)) {
  test(`a path on Windows: ${given}`, () => {
    const configuration = { get: (name: string) => (name === "path" ? given : undefined) };
    const settings = readSettings(configuration, "C:\\Users\\me", "D:\\a b", path.win32);
    assert.equal(settings.path, expected);
  });
}

test("only false turns the workspace's diagnostics off", () => {
  assert.equal(read({ workspaceDiagnostics: false }).workspaceDiagnostics, false);
  assert.equal(read({ workspaceDiagnostics: true }).workspaceDiagnostics, true);
});

test("only true turns inlay hints on", () => {
  assert.equal(read({ "shapes.inlayHints": true }).inlayHints, true);
  assert.equal(read({ "shapes.inlayHints": "yes" }).inlayHints, false);
});
