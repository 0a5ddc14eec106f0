/** The commands of the extension. */

import * as vscode from "vscode";
import type { DiagnosticSeverity } from "vscode-languageserver-protocol";

import type { Program } from "./launch";
import type { Pages } from "./pages";
import { run } from "./process";
import type { Session } from "./session";
import { summaryOf } from "./workspaceCheck";

/** Defined by `embercoach/server/features.py`. */
const KERNEL_SIGNATURE = "embercoach.server.kernelSignature";

interface Rule extends vscode.QuickPickItem {
  readonly label: string;
}

export class Commands {
  constructor(
    private readonly session: Session,
    private readonly pages: Pages,
    private readonly output: vscode.LogOutputChannel,
  ) {}

  register(): vscode.Disposable {
    const commands: Record<string, (...args: never[]) => unknown> = {
      checkWorkspace: () => this.checkWorkspace(),
      showKernelSignature: () => this.showKernelSignature(),
      explainRule: (code?: string) => this.explainRule(code),
      fixAll: () => fixAll(),
      restart: () => this.session.restart(),
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
    if (!isOn("workspaceDiagnostics")) {
      throw new Error("turn on the setting `embercoach.workspaceDiagnostics`");
    }
    const progress = {
      location: vscode.ProgressLocation.Notification,
      title: "EmberCoach checks the workspace",
      cancellable: true,
    };
    const summary = await vscode.window.withProgress(progress, async (_, token) => {
      try {
        return summaryOf(await this.session.checkWorkspace(token), severitiesInCells());
      } catch (error) {
        if (token.isCancellationRequested) {
          return undefined;
        }
        throw error;
      }
    });
    if (summary !== undefined) {
      void vscode.window.showInformationMessage(`EmberCoach: ${summary}`);
      await vscode.commands.executeCommand("workbench.actions.view.problems");
    }
    return summary;
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

function isOn(setting: string): boolean {
  return vscode.workspace.getConfiguration("embercoach").get(setting) !== false;
}

/** The severities, as the protocol counts them, of the findings in cells of open notebooks. */
function severitiesInCells(): DiagnosticSeverity[] {
  return vscode.languages
    .getDiagnostics()
    .filter(([uri]) => uri.scheme === "vscode-notebook-cell")
    .flatMap(([, found]) => found.filter(isOurs))
    .map(({ severity }) => (severity + 1) as DiagnosticSeverity);
}

function isOurs({ source }: vscode.Diagnostic): boolean {
  return source === "embercoach";
}

/** The code of EmberCoach's finding at the cursor. */
function codeAtCursor(): string | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return undefined;
  }
  const found = vscode.languages
    .getDiagnostics(editor.document.uri)
    .find((one) => isOurs(one) && one.range.contains(editor.selection.active));
  const code = typeof found?.code === "object" ? found.code.value : found?.code;
  return typeof code === "string" ? code : undefined;
}

async function fixAll(): Promise<void> {
  await vscode.commands.executeCommand("editor.action.codeAction", {
    kind: "source.fixAll.embercoach",
    apply: "first",
  });
}
