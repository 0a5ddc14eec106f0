import * as assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";

import { checkFolders, position } from "../src/workspaceCheck";

test("columns of code points become UTF-16 code units", () => {
  const lines = ["ab", "\u{1F525}\u{1F525}x"];
  assert.deepEqual(position(lines, 1, 2), [0, 1]);
  assert.deepEqual(position(lines, 2, 3), [1, 4]);
  assert.deepEqual(position(lines, 2, 5), [1, 6]);
  assert.deepEqual(position(lines, 9, 3), [8, 2]);
});

const COMMAND = process.env["EMBERCOACH"];
const skip = COMMAND === undefined ? "EMBERCOACH names no command" : false;

test("the findings of a folder", { skip }, async () => {
  assert.ok(COMMAND);
  const folder = mkdtempSync(path.join(tmpdir(), "embercoach-check-"));
  const file = path.join(folder, "loop.py");
  writeFileSync(
    file,
    "import mlx.core as mx\nx = mx.zeros(3)\nfor i in x:\n    print(x.sum().item())\n",
  );
  const program = { command: COMMAND, args: [], origin: "" };
  const { byFile } = await checkFolders(program, [folder], tmpdir(), false);
  assert.deepEqual(
    byFile.get(file)?.map(({ code, start }) => [code, start]),
    [["GRAPH-BREAK-001", [3, 10]]],
  );
});

test("a program that prints no report is an error with its exit code", async () => {
  const program = { command: "/bin/sh", args: ["-c", "exit 3"], origin: "" };
  await assert.rejects(checkFolders(program, ["/"], tmpdir(), true), /check failed: exit code 3/);
});

test("a program that cannot be started is an error", async () => {
  const program = { command: "/no/such/program", args: [], origin: "" };
  await assert.rejects(checkFolders(program, ["/"], tmpdir(), true), /ENOENT/);
});
