/** Processes of EmberCoach. They start in the extension's folder, which has no Python module. */

import { type ChildProcess, execFile, spawn } from "node:child_process";

import type { Program } from "./launch";

const OUTPUT_BYTES = 256 << 20;
const KEPT_CHARACTERS = 2000;

export interface Result {
  /** The exit code; null if a signal ended the process. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command to its end.
 *
 * @throws Error if it cannot be started.
 */
export async function run(program: Program, args: readonly string[], cwd: string): Promise<Result> {
  const options = { cwd, maxBuffer: OUTPUT_BYTES, windowsHide: true };
  return new Promise((resolve, reject) => {
    execFile(program.command, [...program.args, ...args], options, (error, stdout, stderr) => {
      if (error !== null && typeof error.code !== "number") {
        reject(new Error(error.message, { cause: error }));
      } else {
        resolve({ code: error === null ? 0 : (error.code as unknown as number), stdout, stderr });
      }
    });
  });
}

/** The language server's process, with the end of what it wrote to standard error. */
export class ServerProcess {
  private stderr = "";

  constructor(
    private readonly program: Program,
    private readonly args: readonly string[],
    private readonly cwd: string,
  ) {}

  /** Starts a process, again after a crash. */
  async start(): Promise<ChildProcess> {
    this.stderr = "";
    const { command, args } = this.program;
    const child = spawn(command, [...args, "server", ...this.args], {
      cwd: this.cwd,
      windowsHide: true,
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.stderr = (this.stderr + text).slice(-KEPT_CHARACTERS);
    });
    await new Promise((resolve, reject) => {
      child.once("spawn", resolve).once("error", reject);
    });
    return child;
  }

  /** The last lines of standard error, for a message. */
  get trouble(): string {
    return this.stderr.trim().split("\n").slice(-3).join("\n");
  }
}
