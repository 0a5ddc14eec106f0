/** The settings `embercoach.*`, and the paths in them. */

import type * as path from "node:path";

export type ImportStrategy = "fromEnvironment" | "useBundled";

export interface Settings {
  readonly enable: boolean;
  readonly importStrategy: ImportStrategy;
  /** The command `embercoach`; empty if it is not set. */
  readonly path: string;
  /** The interpreter; empty if it is not set. */
  readonly interpreter: string;
  /** Arguments of `embercoach server`. */
  readonly args: readonly string[];
  /** Check the files that are not open, too. */
  readonly workspaceDiagnostics: boolean;
  /** Show the shapes of arrays as inlay hints. */
  readonly inlayHints: boolean;
}

/** A setting's value by its name; VS Code's `WorkspaceConfiguration` has this method. */
export interface Configuration {
  get(name: string): unknown;
}

/** A setting that cannot be used; its message names the setting. */
export class SettingError extends Error {}

/**
 * Reads and validates the settings, which a user may have written by hand.
 *
 * @param rules of the platform's paths.
 * @throws SettingError if a value has the wrong type.
 */
export function readSettings(
  configuration: Configuration,
  home: string,
  folder: string | undefined,
  rules: path.PlatformPath,
): Settings {
  const strategy = text(configuration, "importStrategy") || "fromEnvironment";
  if (strategy !== "fromEnvironment" && strategy !== "useBundled") {
    throw new SettingError(
      `embercoach.importStrategy must be "fromEnvironment" or "useBundled", got ${JSON.stringify(strategy)}`,
    );
  }
  return {
    enable: configuration.get("enable") !== false,
    importStrategy: strategy,
    path: file(text(configuration, "path"), home, folder, rules),
    interpreter: file(text(configuration, "interpreter"), home, folder, rules),
    args: texts(configuration, "args"),
    workspaceDiagnostics: configuration.get("workspaceDiagnostics") !== false,
    inlayHints: configuration.get("shapes.inlayHints") === true,
  };
}

function text(configuration: Configuration, name: string): string {
  const value = configuration.get(name) ?? "";
  if (typeof value !== "string") {
    throw new SettingError(`embercoach.${name} must be a string, got ${JSON.stringify(value)}`);
  }
  return value;
}

function texts(configuration: Configuration, name: string): readonly string[] {
  const value = configuration.get(name) ?? [];
  if (!Array.isArray(value) || !value.every((one) => typeof one === "string")) {
    throw new SettingError(
      `embercoach.${name} must be a list of strings, got ${JSON.stringify(value)}`,
    );
  }
  return value;
}

function file(
  value: string,
  home: string,
  folder: string | undefined,
  rules: path.PlatformPath,
): string {
  if (value === "") {
    return "";
  }
  const isInHome = value === "~" || ["/", rules.sep].some((sep) => value.startsWith(`~${sep}`));
  const expanded = (isInHome ? home + value.slice(1) : value)
    .replaceAll("${userHome}", home)
    .replaceAll("${workspaceFolder}", folder ?? "${workspaceFolder}");
  if (rules.isAbsolute(expanded)) {
    return expanded;
  }
  if (folder === undefined || expanded.includes("${")) {
    throw new SettingError(
      `embercoach settings: the path ${JSON.stringify(value)} needs an open folder, and only the variables \${workspaceFolder} and \${userHome}`,
    );
  }
  return rules.join(folder, expanded);
}
