/** The commands of the extension. */

import * as vscode from "vscode";

import type { WorkspaceFindings } from "./findings";
import type { Program } from "./launch";
import type { Pages } from "./pages";
import { run } from "./process";
import type { Session } from "./session";
import { checkFolders } from "./workspaceCheck";

/** Defined by `embercoach/server/features.py`. */
const KERNEL_SIGNATURE = "embercoach.server.kernelSignature";

interface Rule extends vscode.QuickPickItem {
  readonly label: string;
}

export class Commands {
  constructor(
    private readonly session: Session,
    private readonly findings: WorkspaceFindings,
    private readonly pages: Pages,
    private readonly output: vscode.LogOutputChannel,
  ) {}

  register(): vscode.Disposable {
    const commands: Record<string, (...args: never[]) => unknown> = {
      checkWorkspace: () => this.checkWorkspace(),
      showKernelSignature: () => this.showKernelSignature(),
      explainRule: (code?: string) => this.explainRule(code),
      fixAll: () => fixAll(),
      restart: () => {
        this.findings.clear();
        return this.session.restart();
      },
      showLog: () => {
        this.output.show();
      },
    };
    return vscode.Disposable.from(
      ...Object.entries(commands).map(([name, command]) =>
        vscode.commands.registerCommand(`embercoach.${name}`, (...args: never[]) =>
          this.shown(() => command(...args)),
        ),
      ),
    );
  }

  /** Runs a command and shows its error. */
  private async shown(command: () => unknown): Promise<unknown> {
    try {
      return await command();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.output.error(reason);
      void vscode.window.showErrorMessage(`EmberCoach: ${reason}`);
      return undefined;
    }
  }

  private async checkWorkspace(): Promise<string | undefined> {
    const program = this.program();
    const folders = (vscode.workspace.workspaceFolders ?? []).filter(
      ({ uri }) => uri.scheme === "file",
    );
    if (folders.length === 0) {
      throw new Error("open a folder to check it");
    }
    const progress = {
      location: vscode.ProgressLocation.Notification,
      title: "EmberCoach checks the workspace",
      cancellable: true,
    };
    const result = await vscode.window.withProgress(progress, async (_, token) => {
      const abort = new AbortController();
      token.onCancellationRequested(() => {
        abort.abort();
      });
      const names = folders.map(({ uri }) => uri.fsPath);
      const { isTrusted } = vscode.workspace;
      const { extension } = this.session;
      try {
        return await checkFolders(program, names, extension, isTrusted, abort.signal);
      } catch (error) {
        if (abort.signal.aborted) {
          return undefined;
        }
        throw error;
      }
    });
    if (result === undefined) {
      return undefined;
    }
    this.findings.show(result.byFile);
    void vscode.window.showInformationMessage(`EmberCoach: ${result.summary}`);
    await vscode.commands.executeCommand("workbench.actions.view.problems");
    return result.summary;
  }

  private async showKernelSignature(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (editor === undefined) {
      throw new Error("open the file of a kernel");
    }
    const { document, selection } = editor;
    const found = await this.session.execute(
      KERNEL_SIGNATURE,
      document.uri.toString(),
      this.session.asPosition(selection.active),
    );
    if (typeof found === "string") {
      await this.pages.show("Kernel signature", found);
    } else {
      void vscode.window.showInformationMessage(
        "EmberCoach: no kernel here. Put the cursor on a call of `mx.fast.metal_kernel`, or on the kernel's source.",
      );
    }
  }

  private async explainRule(code?: string): Promise<void> {
    const program = this.program();
    const chosen = code ?? codeAtCursor() ?? (await this.pickRule(program));
    if (chosen !== undefined) {
      const rule = (await this.json(program, "explain", "--", chosen)) as { page: string };
      await this.pages.show(chosen, rule.page);
    }
  }

  private async pickRule(program: Program): Promise<string | undefined> {
    const rules = this.json(program, "rules").then((found) =>
      (found as { code: string; name: string; summary: string }[]).map(
        ({ code, name, summary }): Rule => ({ label: code, description: name, detail: summary }),
      ),
    );
    const options = { matchOnDescription: true, matchOnDetail: true, title: "Explain a rule" };
    return (await vscode.window.showQuickPick(rules, options))?.label;
  }

  private async json(program: Program, command: string, ...args: string[]): Promise<unknown> {
    const words = [command, "--output-format", "json", ...args];
    const { code, stdout, stderr } = await run(program, words, this.session.extension);
    if (code !== 0) {
      throw new Error(stderr.trim() || `embercoach ${command} failed: exit code ${String(code)}`);
    }
    return JSON.parse(stdout);
  }

  private program(): Program {
    const { program } = this.session;
    if (program === undefined) {
      throw new Error("EmberCoach does not run: see the log");
    }
    return program;
  }
}

/** The code of EmberCoach's finding at the cursor. */
function codeAtCursor(): string | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return undefined;
  }
  const found = vscode.languages
    .getDiagnostics(editor.document.uri)
    .find((one) => one.source === "embercoach" && one.range.contains(editor.selection.active));
  const code = typeof found?.code === "object" ? found.code.value : found?.code;
  return typeof code === "string" ? code : undefined;
}

async function fixAll(): Promise<void> {
  await vscode.commands.executeCommand("editor.action.codeAction", {
    kind: "source.fixAll.embercoach",
    apply: "first",
  });
}
