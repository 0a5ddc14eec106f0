/** Which program to start: the command of a setting, of an environment, of `PATH`, or the bundled one. */

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import * as path from "node:path";

import type { Settings } from "./settings";

/** EmberCoach's command line without a subcommand. */
export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** Where it comes from, for the log. */
  readonly origin: string;
}

export interface Surroundings {
  readonly platform: NodeJS.Platform;
  readonly isTrusted: boolean;
  /** The folders of the workspace. */
  readonly folders: readonly string[];
  /** The interpreter that the Python extension has selected. */
  readonly selected: string | undefined;
  /** The folders of `PATH`. */
  readonly path: readonly string[];
  /** The extension's folder, where programs start: nothing there is a Python module. */
  readonly extension: string;
  readonly log: (line: string) => void;
}

/** No program can be started; the message says what to do. */
export class LaunchError extends Error {}

interface Interpreter {
  readonly command: string;
  readonly origin: string;
}

interface Inspection {
  readonly isSupported: boolean;
  readonly python: string;
  /** The version of EmberCoach; null if it is not installed. */
  readonly version: string | null;
  /** Packages of the extra `server` that are not installed. */
  readonly missing: readonly string[];
}

const INSPECT = `
import json, sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None

print(json.dumps({
    "isSupported": sys.version_info >= (3, 10),
    "python": ".".join(map(str, sys.version_info[:2])),
    "version": installed("embercoach"),
    "missing": [name for name in ("lsprotocol", "pygls") if find_spec(name) is None],
}))
`;
const INSPECTION_MS = 20_000;
const INSTALL =
  'Install it with `python -m pip install "embercoach[server]"`, or set `embercoach.path` or `embercoach.interpreter`.';

/**
 * Chooses the program.
 *
 * In a workspace that is not trusted, no program inside its folders is chosen or run.
 *
 * @throws LaunchError if there is none.
 */
export async function chooseProgram(
  settings: Settings,
  surroundings: Surroundings,
): Promise<Program> {
  if (settings.path !== "") {
    const command = await requireUsable("embercoach.path", settings.path, surroundings);
    return { command, args: [], origin: "the setting embercoach.path" };
  }
  const interpreters = await findInterpreters(settings, surroundings);
  if (settings.importStrategy === "fromEnvironment") {
    const found =
      (await fromEnvironment(interpreters[0], surroundings)) ?? (await fromPath(surroundings));
    if (found !== undefined) {
      return found;
    }
    surroundings.log("trying the EmberCoach of the extension");
  }
  return bundled(interpreters, surroundings);
}

async function findInterpreters(
  settings: Settings,
  surroundings: Surroundings,
): Promise<readonly Interpreter[]> {
  if (settings.interpreter !== "") {
    const { interpreter } = settings;
    const command = await requireUsable("embercoach.interpreter", interpreter, surroundings);
    return [{ command, origin: "the setting embercoach.interpreter" }];
  }
  const found: Interpreter[] = [];
  const { selected } = surroundings;
  if (selected !== undefined && (await isUsable(selected, surroundings))) {
    found.push({ command: selected, origin: "the Python extension" });
  }
  // On Windows, `python3` is an alias of the Microsoft Store; Python's installers add these.
  const names = surroundings.platform === "win32" ? ["python", "py"] : ["python3", "python"];
  for (const name of names) {
    const command = await onPath(name, surroundings);
    if (command !== undefined) {
      found.push({ command, origin: "PATH" });
    }
  }
  return found;
}

async function fromEnvironment(
  interpreter: Interpreter | undefined,
  surroundings: Surroundings,
): Promise<Program | undefined> {
  if (interpreter === undefined) {
    surroundings.log("no Python interpreter found");
    return undefined;
  }
  const { command, origin } = interpreter;
  const inspection = await inspect(command, surroundings);
  if (inspection === undefined) {
    return undefined;
  }
  if (inspection.version === null) {
    surroundings.log(`${command} (${origin}) has no EmberCoach`);
    return undefined;
  }
  if (inspection.missing.length > 0) {
    surroundings.log(
      `${command} (${origin}) has EmberCoach without ${inspection.missing.join(" and ")}: ` +
        `run ${command} -m pip install "embercoach[server]"`,
    );
    return undefined;
  }
  return {
    command,
    args: ["-m", "embercoach"],
    origin: `EmberCoach ${inspection.version} of ${origin}`,
  };
}

async function fromPath(surroundings: Surroundings): Promise<Program | undefined> {
  const command = await onPath("embercoach", surroundings);
  return command === undefined ? undefined : { command, args: [], origin: "PATH" };
}

async function bundled(
  interpreters: readonly Interpreter[],
  surroundings: Surroundings,
): Promise<Program> {
  const script = path.join(surroundings.extension, "bundled", "run.py");
  const libraries = path.join(surroundings.extension, "bundled", "libs");
  if (!(await isReadable(libraries))) {
    throw new LaunchError(
      `EmberCoach was not found, and this build of the extension has none. ${INSTALL}`,
    );
  }
  for (const { command, origin } of interpreters) {
    const inspection = await inspect(command, surroundings);
    if (inspection?.isSupported === true) {
      // Isolated: neither PYTHONPATH nor the user's packages replace a bundled module.
      return {
        command,
        args: ["-I", script],
        origin: `the extension, run by Python ${inspection.python} of ${origin}`,
      };
    }
    if (inspection !== undefined) {
      surroundings.log(
        `${command} (${origin}) is Python ${inspection.python}; EmberCoach needs 3.10 or newer`,
      );
    }
  }
  throw new LaunchError(
    "EmberCoach needs Python 3.10 or newer, and none was found. " +
      "Install one, or set `embercoach.interpreter`.",
  );
}

/** Asks an interpreter for its version and packages; undefined, with a line in the log, if it fails. */
async function inspect(
  interpreter: string,
  surroundings: Surroundings,
): Promise<Inspection | undefined> {
  // In the extension's folder: with `-c`, Python imports from the working directory first.
  const options = { cwd: surroundings.extension, timeout: INSPECTION_MS, windowsHide: true };
  return new Promise((resolve) => {
    execFile(interpreter, ["-c", INSPECT], options, (error, stdout) => {
      if (error === null) {
        try {
          resolve(JSON.parse(stdout) as Inspection);
          return;
        } catch {
          // Not Python, or a wrapper that prints: reported below.
        }
      }
      surroundings.log(
        `${interpreter} does not run as Python: ${error?.message.trim() ?? stdout.slice(0, 200)}`,
      );
      resolve(undefined);
    });
  });
}

async function onPath(name: string, surroundings: Surroundings): Promise<string | undefined> {
  for (const folder of surroundings.path) {
    const candidate = executable(path.join(folder, name), surroundings.platform);
    // A relative folder of PATH would be one of the working directory.
    if (path.isAbsolute(folder) && (await isUsable(candidate, surroundings))) {
      return candidate;
    }
  }
  return undefined;
}

/** The file of a command: Windows starts only `.exe` files without a shell. */
export function executable(file: string, platform: NodeJS.Platform): string {
  const isComplete = platform !== "win32" || path.win32.extname(file).toLowerCase() === ".exe";
  return isComplete ? file : `${file}.exe`;
}

async function requireUsable(
  setting: string,
  value: string,
  surroundings: Surroundings,
): Promise<string> {
  const file = executable(value, surroundings.platform);
  if (!(await isExecutable(file))) {
    throw new LaunchError(`\`${setting}\` must be an executable file, got ${file}`);
  }
  if (!(await isAllowed(file, surroundings))) {
    throw new LaunchError(`\`${setting}\` is inside a workspace that is not trusted: ${file}`);
  }
  return file;
}

async function isUsable(file: string, surroundings: Surroundings): Promise<boolean> {
  return (await isExecutable(file)) && (await isAllowed(file, surroundings));
}

async function isAllowed(file: string, surroundings: Surroundings): Promise<boolean> {
  if (surroundings.isTrusted) {
    return true;
  }
  const places = [path.resolve(file), await realpath(file)];
  for (const folder of surroundings.folders) {
    const roots = [path.resolve(folder), await realpath(folder).catch(() => folder)];
    if (places.some((place) => roots.some((root) => isInside(place, root, path)))) {
      surroundings.log(`${file} is inside a workspace that is not trusted: not started`);
      return false;
    }
  }
  return true;
}

/** Whether a place is a folder or inside it, by the rules of a platform's paths. */
export function isInside(place: string, root: string, rules: path.PlatformPath): boolean {
  const relative = rules.relative(root, place);
  return relative !== ".." && !relative.startsWith(`..${rules.sep}`) && !rules.isAbsolute(relative);
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    async () => (await stat(file)).isFile(),
    () => false,
  );
}

async function isReadable(file: string): Promise<boolean> {
  return access(file, constants.R_OK).then(
    () => true,
    () => false,
  );
}
