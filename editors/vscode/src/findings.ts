/** Findings of the command "Check Workspace". The server's report on a file replaces them. */

import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient/node";

import type { Placed, Severity } from "./workspaceCheck";

const SEVERITIES: Record<Severity, vscode.DiagnosticSeverity> = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  note: vscode.DiagnosticSeverity.Hint,
};

export class WorkspaceFindings implements vscode.Disposable {
  private readonly collection = vscode.languages.createDiagnosticCollection("embercoach-workspace");
  /** The files with findings of the server. */
  private readonly served = new Set<string>();

  /** Sees what the server reports. */
  readonly middleware: Middleware = {
    handleDiagnostics: (uri, diagnostics, next) => {
      this.collection.delete(uri);
      if (diagnostics.length > 0) {
        this.served.add(uri.toString());
      } else {
        this.served.delete(uri.toString());
      }
      next(uri, diagnostics);
    },
  };

  /** Shows findings of files that the server does not report on. */
  show(byFile: ReadonlyMap<string, readonly Placed[]>): void {
    const open = new Set(vscode.workspace.textDocuments.map((one) => one.uri.toString()));
    this.collection.clear();
    for (const [file, found] of byFile) {
      const uri = vscode.Uri.file(file);
      if (!open.has(uri.toString()) && !this.served.has(uri.toString())) {
        this.collection.set(uri, found.map(diagnostic));
      }
    }
  }

  clear(): void {
    this.served.clear();
    this.collection.clear();
  }

  dispose(): void {
    this.collection.dispose();
  }
}

function diagnostic(one: Placed): vscode.Diagnostic {
  const range = new vscode.Range(...one.start, ...one.end);
  const found = new vscode.Diagnostic(range, one.message, SEVERITIES[one.severity]);
  found.source = "embercoach";
  if (one.code !== undefined) {
    found.code = one.code;
  }
  return found;
}
