import * as assert from "node:assert/strict";
import { test } from "node:test";

import { readSettings, SettingError } from "../src/settings";

function read(values: Record<string, unknown>, folder: string | undefined = "/work") {
  return readSettings({ get: (name) => values[name] }, "/home/me", folder);
}

test("settings that are not set have their defaults", () => {
  assert.deepEqual(read({}), {
    enable: true,
    importStrategy: "fromEnvironment",
    path: "",
    interpreter: "",
    args: [],
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
  assert.throws(() => readSettings(configuration, "/home/me", undefined), /needs an open folder/);
});
