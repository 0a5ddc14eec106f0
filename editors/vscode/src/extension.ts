/** The extension: starts the language server, and again when a setting or the interpreter changes. */

import * as vscode from "vscode";

import { Commands } from "./commands";
import { onInterpreterChange } from "./interpreter";
import { Pages } from "./pages";
import { Session } from "./session";

const STARTING = [
  "args",
  "enable",
  "importStrategy",
  "interpreter",
  "path",
  "shapes.inlayHints",
  "workspaceDiagnostics",
];

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("EmberCoach", { log: true });
  const pages = new Pages();
  const started = new Session(context.extensionPath, output);
  session = started;
  const restart = (): void => {
    void started.restart();
  };
  context.subscriptions.push(
    output,
    pages.register(),
    new Commands(started, pages, output).register(),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (STARTING.some((name) => event.affectsConfiguration(`embercoach.${name}`))) {
        restart();
      }
    }),
  );
  await started.restart();
  onInterpreterChange(restart).then(
    (listener) => context.subscriptions.push(listener),
    (error: unknown) => {
      output.warn(`changes of the interpreter are not seen: ${String(error)}`);
    },
  );
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}
