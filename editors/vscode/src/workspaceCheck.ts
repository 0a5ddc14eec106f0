/** `embercoach check` of folders, and its findings by file. */

import { readFile } from "node:fs/promises";
import * as path from "node:path";

import type { Program } from "./launch";
import { run } from "./process";

export type Severity = "error" | "warning" | "note";

/** A finding as the JSON report has it: places count code points from 1. */
interface Finding {
  readonly path: string;
  /** The number of a notebook's cell. */
  readonly cell?: number;
  readonly line: number;
  readonly column: number;
  readonly end_line: number;
  readonly end_column: number;
  readonly code: string;
  readonly severity: Severity;
  readonly message: string;
  readonly help: string | null;
}

interface Problem {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

interface Report {
  readonly findings: readonly Finding[];
  readonly problems: readonly Problem[];
  readonly summary: { readonly errors: number; readonly warnings: number; readonly notes: number };
}

/** A finding in the editor's units: lines and UTF-16 code units from 0. */
export interface Placed {
  readonly start: readonly [line: number, character: number];
  readonly end: readonly [line: number, character: number];
  readonly code: string | undefined;
  readonly severity: Severity;
  readonly message: string;
}

export interface CheckResult {
  readonly byFile: ReadonlyMap<string, readonly Placed[]>;
  readonly summary: string;
}

/**
 * Checks folders.
 *
 * @param isTrusted whether a cache in the folders may be used.
 * @throws Error with the program's message if there is no report.
 */
export async function checkFolders(
  program: Program,
  folders: readonly string[],
  cwd: string,
  isTrusted: boolean,
  signal?: AbortSignal,
): Promise<CheckResult> {
  const options = ["--output-format", "json", ...(isTrusted ? [] : ["--no-cache"])];
  const result = await run(program, ["check", ...options, "--", ...folders], cwd, signal);
  let report: Report;
  try {
    report = JSON.parse(result.stdout) as Report;
  } catch {
    const reason = result.stderr.trim() || `exit code ${String(result.code)}`;
    throw new Error(`embercoach check failed: ${reason}`);
  }
  return { byFile: await placed(report, cwd), summary: summaryOf(report) };
}

async function placed(report: Report, cwd: string): Promise<Map<string, Placed[]>> {
  const found = new Map<string, Placed[]>();
  const put = (file: string, one: Placed): void => {
    const absolute = path.resolve(cwd, file);
    const known = found.get(absolute);
    if (known === undefined) {
      found.set(absolute, [one]);
    } else {
      known.push(one);
    }
  };
  for (const { path: file, line, message } of report.problems) {
    const at = [Math.max(line - 1, 0), 0] as const;
    put(file, { start: at, end: at, code: undefined, severity: "warning", message });
  }
  const texts = new Map<string, Promise<readonly string[]>>();
  for (const finding of report.findings) {
    const message = finding.help === null ? finding.message : `${finding.message}\n${finding.help}`;
    const { code, severity, cell, path: file } = finding;
    if (cell !== undefined) {
      const where = `cell ${cell}, line ${finding.line}: `;
      put(file, { start: [0, 0], end: [0, 0], code, severity, message: where + message });
      continue;
    }
    let text = texts.get(file);
    if (text === undefined) {
      text = linesOf(path.resolve(cwd, file));
      texts.set(file, text);
    }
    const lines = await text;
    const start = position(lines, finding.line, finding.column);
    const end = position(lines, finding.end_line, finding.end_column);
    put(file, { start, end, code, severity, message });
  }
  return found;
}

async function linesOf(file: string): Promise<readonly string[]> {
  // A file that is gone by now has its columns as they are.
  const text = await readFile(file, "utf8").catch(() => "");
  return text.split(/\r\n|\n|\r/);
}

/** The editor's position for a line and a column of code points from 1. */
export function position(
  lines: readonly string[],
  line: number,
  column: number,
): readonly [number, number] {
  const before = Array.from(lines[line - 1] ?? "").slice(0, column - 1);
  // Past the end of the line, which the report may name, a code point counts as one.
  return [line - 1, before.join("").length + (column - 1 - before.length)];
}

function summaryOf({ summary, problems }: Report): string {
  const counts = [
    plural(summary.errors, "error"),
    plural(summary.warnings, "warning"),
    plural(summary.notes, "note"),
  ];
  const failed = problems.length > 0 ? `; not checked: ${plural(problems.length, "file")}` : "";
  return counts.join(", ") + failed;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
