/** The interpreter that the Python extension has selected, where that extension is installed. */

import { PVSC_EXTENSION_ID, PythonExtension } from "@vscode/python-extension";
import * as vscode from "vscode";

/**
 * Returns the path of the selected interpreter.
 *
 * Undefined without the extension, and in a workspace that is not trusted: the extension finds
 * interpreters by running programs of the workspace.
 */
export async function selectedInterpreter(
  log: (line: string) => void,
): Promise<string | undefined> {
  if (!vscode.workspace.isTrusted || !isInstalled()) {
    return undefined;
  }
  try {
    const { environments } = await PythonExtension.api();
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const active = environments.getActiveEnvironmentPath(folder);
    const environment = await environments.resolveEnvironment(active);
    return environment?.executable.uri?.fsPath;
  } catch (error) {
    log(`the Python extension gives no interpreter: ${String(error)}`);
    return undefined;
  }
}

/** Calls a function when another interpreter is selected. */
export async function onInterpreterChange(changed: () => void): Promise<vscode.Disposable> {
  if (!isInstalled()) {
    return new vscode.Disposable(() => undefined);
  }
  const { environments } = await PythonExtension.api();
  return environments.onDidChangeActiveEnvironmentPath(changed);
}

function isInstalled(): boolean {
  return vscode.extensions.getExtension(PVSC_EXTENSION_ID) !== undefined;
}
