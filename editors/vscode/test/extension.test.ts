import * as assert from "node:assert/strict";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { beforeEach, test } from "node:test";
import * as vscode from "vscode";

import { activate, deactivate } from "../src/extension";
import { onInterpreterChange, selectedInterpreter } from "../src/interpreter";

/** The state of `test/vscode.ts`. */
const { state } = vscode as unknown as { state: State };

interface State {
  isTrusted: boolean;
  folders: string[];
  settings: Record<string, unknown>;
  extensions: Record<string, unknown>;
  lines: string[];
  trustGranted: vscode.EventEmitter<void>;
}

const PYTHON = "ms-python.python";
let lines: string[];
const log = (line: string): void => {
  lines.push(line);
};

beforeEach(() => {
  lines = [];
  Object.assign(state, { isTrusted: true, folders: [], settings: {}, extensions: {}, lines: [] });
});

/** Installs a Python extension with an environment; the folders that it is asked about. */
function installPython(
  environment: unknown,
  changed = new vscode.EventEmitter<void>(),
): { asked: unknown[] } {
  const asked: unknown[] = [];
  const environments = {
    getActiveEnvironmentPath: (folder: vscode.Uri | undefined) => {
      asked.push(folder?.fsPath);
      return { id: "active", path: "/env" };
    },
    resolveEnvironment: ({ id }: { id: string }) => {
      assert.equal(id, "active");
      return environment instanceof Error
        ? Promise.reject(environment)
        : Promise.resolve(environment);
    },
    onDidChangeActiveEnvironmentPath: changed.event,
  };
  state.extensions[PYTHON] = { isActive: true, exports: { environments } };
  return { asked };
}

test("the interpreter is that of the first folder's environment", async () => {
  state.folders = ["/work", "/other"];
  const { asked } = installPython({ executable: { uri: { fsPath: "/env/bin/python" } } });
  assert.equal(await selectedInterpreter(log), "/env/bin/python");
  assert.deepEqual(asked, ["/work"]);
});

test("without the Python extension there is no interpreter", async () => {
  assert.equal(await selectedInterpreter(log), undefined);
  const listener = await onInterpreterChange(() => assert.fail());
  listener.dispose();
  assert.deepEqual(lines, []);
});

test("an environment without an interpreter is none", async () => {
  for (const environment of [undefined, { executable: {} }]) {
    installPython(environment);
    assert.equal(await selectedInterpreter(log), undefined);
  }
});

test("an error of the Python extension is logged", async () => {
  installPython(new Error("no interpreter yet"));
  assert.equal(await selectedInterpreter(log), undefined);
  assert.match(lines.join(), /gives no interpreter: Error: no interpreter yet/);
});

test("the Python extension is not asked in a workspace that is not trusted", async () => {
  state.isTrusted = false;
  const { asked } = installPython({ executable: { uri: { fsPath: "/env/bin/python" } } });
  assert.equal(await selectedInterpreter(log), undefined);
  assert.deepEqual(asked, []);
});

test("another interpreter is noticed until the listener is disposed", async () => {
  const changed = new vscode.EventEmitter<void>();
  installPython(undefined, changed);
  let count = 0;
  const listener = await onInterpreterChange(() => (count += 1));
  changed.fire();
  assert.equal(count, 1);
  listener.dispose();
  changed.fire();
  assert.equal(count, 1);
});

test("a program of the workspace is chosen when the workspace becomes trusted", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "embercoach-trust-"));
  const command = path.join(folder, "embercoach");
  writeFileSync(command, "#!/bin/sh\nexit 1\n");
  chmodSync(command, 0o755);
  Object.assign(state, { isTrusted: false, folders: [folder], settings: { path: command } });
  const context = { extensionPath: tmpdir(), subscriptions: [] };
  await activate(context as unknown as vscode.ExtensionContext);
  assert.match(state.lines.join("\n"), /inside a workspace that is not trusted/);
  assert.doesNotMatch(state.lines.join("\n"), /^starts/m);
  state.isTrusted = true;
  state.trustGranted.fire();
  // Waits for the start that the grant has queued; the client of the mocked editor fails.
  await deactivate();
  assert.match(
    state.lines.join("\n"),
    /starts .*embercoach server \(the setting embercoach.path\)/,
  );
});
