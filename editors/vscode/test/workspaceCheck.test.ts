import * as assert from "node:assert/strict";
import { test } from "node:test";
import type {
  Diagnostic,
  DiagnosticSeverity,
  WorkspaceDocumentDiagnosticReport,
} from "vscode-languageserver-protocol";

import { summaryOf } from "../src/workspaceCheck";

const PLACE = { start: { line: 0, character: 0 }, end: { line: 0, character: 1 } };

function finding(severity: DiagnosticSeverity, code = "DTYPE-001"): Diagnostic {
  return { range: PLACE, message: "", severity, code };
}

function file(...items: Diagnostic[]): WorkspaceDocumentDiagnosticReport {
  return { kind: "full", uri: "file:///a.py", version: null, items };
}

test("a report without findings", () => {
  assert.equal(summaryOf({ items: [] }), "0 errors, 0 warnings, 0 notes");
  assert.equal(summaryOf({ items: [file()] }), "0 errors, 0 warnings, 0 notes");
});

test("findings of all files are counted by severity", () => {
  const items = [file(finding(1), finding(2)), file(finding(2), finding(3), finding(4))];
  assert.equal(summaryOf({ items }), "1 error, 2 warnings, 2 notes");
});

test("findings in cells are counted", () => {
  assert.equal(summaryOf({ items: [file(finding(2))] }, [1, 2]), "1 error, 2 warnings, 0 notes");
});

test("files that were not checked are counted apart", () => {
  const items = [file(finding(2, "not-checked")), file(finding(1))];
  assert.equal(summaryOf({ items }), "1 error, 0 warnings, 0 notes; not checked: 1 file");
});
