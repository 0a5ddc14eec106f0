/** The check of the workspace: the server's report on all files, in one line. */

import { DiagnosticSeverity, type WorkspaceDiagnosticReport } from "vscode-languageserver-protocol";

/** The code of the server's warning on a file that it could not check. */
const NOT_CHECKED = "not-checked";

/**
 * Counts findings by severity.
 *
 * @param cells severities of the findings in cells of open notebooks, which the report omits.
 */
export function summaryOf(
  report: WorkspaceDiagnosticReport,
  cells: readonly DiagnosticSeverity[] = [],
): string {
  const all = report.items.flatMap((one) => (one.kind === "full" ? one.items : []));
  const found = all.filter(({ code }) => code !== NOT_CHECKED);
  const severities = [...found.map(({ severity }) => severity), ...cells];
  const errors = severities.filter((one) => one === DiagnosticSeverity.Error).length;
  const warnings = severities.filter((one) => one === DiagnosticSeverity.Warning).length;
  const notes = severities.length - errors - warnings;
  const counts = [plural(errors, "error"), plural(warnings, "warning"), plural(notes, "note")];
  const missing = all.length - found.length;
  return counts.join(", ") + (missing > 0 ? `; not checked: ${plural(missing, "file")}` : "");
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
