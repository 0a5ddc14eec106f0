/** The language server of the window: start, stop, and the program that runs it. */

import { homedir } from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  type LanguageClientOptions,
  type WorkspaceDiagnosticReport,
  WorkspaceDiagnosticRequest,
} from "vscode-languageclient/node";

import { selectedInterpreter } from "./interpreter";
import { chooseProgram, LaunchError, type Program } from "./launch";
import { ServerProcess } from "./process";
import { readSettings, SettingError, type Settings } from "./settings";

/** `embercoach server` ends a document's analysis, not itself: more crashes than these are a bug. */
const MAX_RESTARTS = 3;
const SELECTOR = [
  ...["file", "untitled", "vscode-notebook-cell"].map((scheme) => ({ scheme, language: "python" })),
  ...["metal", "objective-c", "objective-cpp"].map((language) => ({ scheme: "file", language })),
];

export class Session {
  private client: LanguageClient | undefined;
  private chosen: Program | undefined;
  private queue: Promise<void> = Promise.resolve();

  constructor(
    readonly extension: string,
    private readonly output: vscode.LogOutputChannel,
  ) {}

  /** The program that was started last. */
  get program(): Program | undefined {
    return this.chosen;
  }

  /** Starts the server, or stops and starts it; one call after the other. */
  async restart(): Promise<void> {
    this.queue = this.queue.then(async () => {
      await this.stopClient();
      try {
        await this.startClient();
      } catch (error) {
        this.report(error);
      }
    });
    return this.queue;
  }

  /** Stops the server. */
  async stop(): Promise<void> {
    this.queue = this.queue.then(() => this.stopClient());
    return this.queue;
  }

  /**
   * Asks the server to execute a command.
   *
   * @throws Error if it does not run, or answers with an error.
   */
  async execute(command: string, ...args: unknown[]): Promise<unknown> {
    return this.running().sendRequest("workspace/executeCommand", { command, arguments: args });
  }

  /**
   * Asks the server to check all files of the workspace.
   *
   * @throws Error if it does not run, answers with an error, or the token is cancelled.
   */
  async checkWorkspace(token: vscode.CancellationToken): Promise<WorkspaceDiagnosticReport> {
    const client = this.running();
    // The server answers without delay if a report is outdated; no folder has one.
    const folders = vscode.workspace.workspaceFolders ?? [];
    const previousResultIds = folders.map(({ uri }) => ({ uri: uri.toString(), value: "" }));
    return client.sendRequest(WorkspaceDiagnosticRequest.type, { previousResultIds }, token);
  }

  /** The client's conversion of positions. */
  asPosition(position: vscode.Position): unknown {
    return this.client?.code2ProtocolConverter.asPosition(position);
  }

  private running(): LanguageClient {
    if (this.client === undefined) {
      throw new Error("the language server does not run: see the log");
    }
    return this.client;
  }

  private async startClient(): Promise<void> {
    const folders = (vscode.workspace.workspaceFolders ?? [])
      .filter(({ uri }) => uri.scheme === "file")
      .map(({ uri }) => uri.fsPath);
    const configuration = vscode.workspace.getConfiguration("embercoach");
    const settings = readSettings(configuration, homedir(), folders[0], path);
    if (!settings.enable) {
      this.output.info("the setting embercoach.enable is off");
      return;
    }
    const log = (line: string): void => {
      this.output.info(line);
    };
    const program = await chooseProgram(settings, {
      platform: process.platform,
      isTrusted: vscode.workspace.isTrusted,
      folders,
      selected: await selectedInterpreter(log),
      path: (process.env["PATH"] ?? "").split(path.delimiter),
      extension: this.extension,
      log,
    });
    this.chosen = program;
    log(`starts ${[program.command, ...program.args, "server"].join(" ")} (${program.origin})`);
    const server = new ServerProcess(program, settings.args, this.extension);
    const client = this.createClient(server, settings);
    try {
      await client.start();
    } catch (error) {
      await client.dispose().catch(() => undefined);
      throw new LaunchError(server.trouble || String(error));
    }
    this.client = client;
  }

  private createClient(server: ServerProcess, settings: Settings): LanguageClient {
    let restarts = 0;
    const options: LanguageClientOptions = {
      documentSelector: SELECTOR,
      diagnosticCollectionName: "embercoach",
      outputChannel: this.output,
      initializationOptions: {
        workspaceDiagnostics: settings.workspaceDiagnostics,
        shapes: { inlayHints: settings.inlayHints },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue }),
        closed: () => {
          const again = this.client === client && restarts < MAX_RESTARTS;
          restarts += 1;
          if (this.client === client && !again) {
            this.report(new LaunchError(`it ended ${restarts} times. ${server.trouble}`));
          }
          return { action: again ? CloseAction.Restart : CloseAction.DoNotRestart, handled: true };
        },
      },
    };
    const client = new LanguageClient("embercoach", "EmberCoach", () => server.start(), options);
    return client;
  }

  private async stopClient(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.chosen = undefined;
    // A server that crashed is stopped already.
    await client?.dispose().catch((error: unknown) => {
      this.output.warn(String(error));
    });
  }

  /** Shows why the server does not run, without waiting for an answer. */
  private report(error: unknown): void {
    const expected = error instanceof LaunchError || error instanceof SettingError;
    const reason = error instanceof Error ? error.message : String(error);
    this.output.error(expected || !(error instanceof Error) ? reason : (error.stack ?? reason));
    const message = `EmberCoach did not start: ${reason}`;
    void vscode.window
      .showErrorMessage(message, "Show Log", "Open Settings")
      .then(async (answer) => {
        if (answer === "Show Log") {
          this.output.show();
        } else if (answer === "Open Settings") {
          await vscode.commands.executeCommand("workbench.action.openSettings", "embercoach");
        }
      });
  }
}
