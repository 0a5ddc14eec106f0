import * as assert from "node:assert/strict";
import { test } from "node:test";

import { run } from "../src/process";

test("the exit code and the output of a program", async () => {
  const args = ["-e", "console.log(process.argv.slice(1).join()); process.exit(3)", "--"];
  const program = { command: process.execPath, args, origin: "" };
  const { code, stdout } = await run(program, ['a "quoted" word', "$HOME"], "/");
  assert.deepEqual([code, stdout], [3, 'a "quoted" word,$HOME\n']);
});

test("a program that cannot be started is an error", async () => {
  const program = { command: "/no/such/program", args: [], origin: "" };
  await assert.rejects(run(program, [], "/"), /ENOENT/);
});
