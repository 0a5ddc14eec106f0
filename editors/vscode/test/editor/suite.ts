/** Tests inside VS Code, with the installed extension and the real server. An extension of its own runs them. */

import * as assert from "node:assert/strict";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

/** Of the files that `launch.mjs` writes. */
const SUMMARY = "1 error, 3 warnings, 0 notes";
const PATIENCE_MS = 8_000;
/** A finding that comes twice comes again within this time. */
const SETTLE_MS = 1_500;

/** The project that `launch.mjs` writes. */
function file(name: string): vscode.Uri {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  assert.ok(folder);
  return vscode.Uri.joinPath(folder, name);
}

async function until<T>(what: string, find: () => T | undefined): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const found = find();
    if (found !== undefined) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`waited in vain for ${what}`);
}

function codes(uri: vscode.Uri): unknown[] {
  return vscode.languages
    .getDiagnostics(uri)
    .filter((one) => one.source === "embercoach")
    .map(({ code }) => (typeof code === "object" ? code.value : code));
}

/** Waits until these are the findings, and checks that no more come. */
async function settled(uri: vscode.Uri, expected: string[]): Promise<void> {
  await until(`[${expected.join()}] of ${uri.path}, not [${codes(uri).join()}]`, () =>
    codes(uri).join() === expected.join() ? true : undefined,
  );
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  assert.deepEqual(codes(uri), expected);
}

async function open(name: string): Promise<vscode.TextEditor> {
  return vscode.window.showTextDocument(file(name));
}

async function quickFixes(uri: vscode.Uri, range: vscode.Range): Promise<string[]> {
  const command = "vscode.executeCodeActionProvider";
  const found = await vscode.commands.executeCommand<vscode.CodeAction[]>(command, uri, range);
  return found.map(({ title }) => title);
}

async function page(title: string): Promise<string> {
  return until(`the page ${title}`, () => {
    const wanted = (one: vscode.TextDocument): boolean =>
      one.uri.scheme === "embercoach" && path.posix.basename(one.uri.path) === `${title}.md`;
    return vscode.workspace.textDocuments.find(wanted)?.getText();
  });
}

const TESTS: Record<string, () => Promise<void>> = {
  "checks the workspace, files that are not open included": async () => {
    const summary = await vscode.commands.executeCommand("embercoach.checkWorkspace");
    assert.equal(summary, SUMMARY);
    await settled(file("loop.py"), ["GRAPH-BREAK-001"]);
    assert.deepEqual(codes(file("cells.ipynb")), ["GRAPH-BREAK-001"]);
    const found = vscode.languages.getDiagnostics(file("loop.py"))[0];
    // The character before it has two UTF-16 code units.
    assert.deepEqual(found?.range, new vscode.Range(4, 18, 4, 32));
  },
  "reports a finding once, in an open file and after it is closed": async () => {
    const { document } = await open("loop.py");
    await settled(document.uri, ["GRAPH-BREAK-001"]);
    const one = vscode.languages.getDiagnostics(document.uri)[0];
    assert.deepEqual(one?.range, new vscode.Range(4, 18, 4, 32));
    assert.equal(typeof one.code, "object");
    await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
    await settled(document.uri, ["GRAPH-BREAK-001"]);
  },
  "follows files on disk": async () => {
    const { fsPath } = file("loop.py");
    const text = readFileSync(fsPath, "utf8");
    writeFileSync(fsPath, "pass\n");
    await settled(file("loop.py"), []);
    writeFileSync(fsPath, text);
    await settled(file("loop.py"), ["GRAPH-BREAK-001"]);
  },
  "reports a finding of a notebook once, in its cell while it is open": async () => {
    // Not by `openNotebookDocument`, which keeps it open for minutes.
    await vscode.commands.executeCommand("vscode.open", file("cells.ipynb"));
    const notebook = await until("the notebook", () => vscode.workspace.notebookDocuments[0]);
    const cell = notebook.cellAt(1).document;
    await settled(cell.uri, ["GRAPH-BREAK-001"]);
    await settled(notebook.uri, []);
    const found = vscode.languages.getDiagnostics(cell.uri)[0];
    assert.deepEqual(found?.range, new vscode.Range(2, 8, 2, 22));
    assert.equal(await vscode.commands.executeCommand("embercoach.checkWorkspace"), SUMMARY);
    const titles = await quickFixes(cell.uri, found.range);
    assert.ok(titles.includes("GRAPH-BREAK-001: add a suppression comment"), titles.join());
    const edit = new vscode.WorkspaceEdit();
    edit.replace(cell.uri, new vscode.Range(2, 0, 3, 0), "    pass");
    assert.ok(await vscode.workspace.applyEdit(edit));
    await settled(cell.uri, []);
    await vscode.commands.executeCommand("workbench.action.files.revert");
    await vscode.commands.executeCommand("workbench.action.closeAllEditors");
    await until("the notebook to close", () => (notebook.isClosed ? true : undefined));
    await settled(notebook.uri, ["GRAPH-BREAK-001"]);
  },
  "offers quick fixes": async () => {
    const { document } = await open("loop.py");
    const range = new vscode.Range(4, 18, 4, 19);
    const titles = await quickFixes(document.uri, range);
    assert.ok(titles.includes("GRAPH-BREAK-001: add a suppression comment"), titles.join());
  },
  "follows what is typed": async () => {
    const { document } = await open("loop.py");
    const edit = new vscode.WorkspaceEdit();
    edit.replace(document.uri, new vscode.Range(4, 0, 5, 0), "    pass\n");
    assert.ok(await vscode.workspace.applyEdit(edit));
    await until("no finding", () => (codes(document.uri).length === 0 ? true : undefined));
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  "applies all safe fixes": async () => {
    const { document } = await open("idle.py");
    await until("a finding", () => codes(document.uri)[0]);
    await vscode.commands.executeCommand("embercoach.fixAll");
    await until("the fix", () => (document.getText().includes("ignore[") ? undefined : true));
    await vscode.commands.executeCommand("workbench.action.files.revert");
  },
  "shows the signature of a kernel": async () => {
    const editor = await open("kernel.py");
    editor.selection = new vscode.Selection(3, 0, 3, 0);
    await vscode.commands.executeCommand("embercoach.showKernelSignature");
    assert.match(await page("Kernel signature"), /\[\[kernel\]\] void custom_kernel_scale/);
  },
  "explains a rule": async () => {
    await vscode.commands.executeCommand("embercoach.explainRule", "HOST-PULL-001");
    assert.match(await page("HOST-PULL-001"), /^# tolist-call \(HOST-PULL-001\)/);
  },
  "checks Metal files": async () => {
    const { document } = await open("race.metal");
    assert.equal(document.languageId, "metal");
    await until("a finding", () => codes(document.uri)[0]);
  },
  "starts the server again": async () => {
    const { document } = await open("loop.py");
    await vscode.commands.executeCommand("embercoach.restart");
    await until("a finding", () => codes(document.uri)[0]);
  },
};

/** Runs the tests, and writes their results where `launch.mjs` waits for them. */
export async function activate(): Promise<void> {
  const lines: string[] = [];
  let failed = 0;
  for (const [name, test] of Object.entries(TESTS)) {
    try {
      await test();
      lines.push(`ok - ${name}`);
    } catch (error) {
      failed += 1;
      lines.push(`not ok - ${name}`, String(error instanceof Error ? error.stack : error));
    }
  }
  lines.push(`${Object.keys(TESTS).length - failed} passed, ${failed} failed`);
  const results = process.env["EMBERCOACH_RESULTS"];
  assert.ok(results);
  writeFileSync(`${results}.new`, JSON.stringify({ lines, failed }));
  renameSync(`${results}.new`, results);
}
