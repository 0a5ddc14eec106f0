import * as assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";

import { chooseProgram, executable, isInside, LaunchError, type Surroundings } from "../src/launch";
import type { Settings } from "../src/settings";

const DEFAULTS: Settings = {
  enable: true,
  importStrategy: "fromEnvironment",
  path: "",
  interpreter: "",
  args: [],
  workspaceDiagnostics: true,
  inlayHints: false,
};

class Machine {
  readonly root = mkdtempSync(path.join(tmpdir(), "embercoach-launch-"));
  readonly lines: string[] = [];

  /** Writes a program that prints a text. */
  program(name: string, prints = ""): string {
    const file = path.join(this.root, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, `#!/bin/sh\necho '${prints}'\n`);
    chmodSync(file, 0o755);
    return file;
  }

  python(name: string, inspection: Record<string, unknown> = {}): string {
    const all = { isSupported: true, python: "3.12", version: "0.1.0", missing: [], ...inspection };
    return this.program(name, JSON.stringify(all));
  }

  bundle(): void {
    mkdirSync(path.join(this.root, "bundled", "libs"), { recursive: true });
  }

  surroundings(changes: Partial<Surroundings> = {}): Surroundings {
    return {
      platform: "linux",
      isTrusted: true,
      folders: [path.join(this.root, "project")],
      selected: undefined,
      path: [path.join(this.root, "bin")],
      extension: this.root,
      log: (line) => this.lines.push(line),
      ...changes,
    };
  }
}

test("the setting path comes first", async () => {
  const machine = new Machine();
  const command = machine.program("own/embercoach");
  const found = await chooseProgram({ ...DEFAULTS, path: command }, machine.surroundings());
  assert.deepEqual([found.command, found.args], [command, []]);
});

test("a path that is no program is an error, and nothing else is started", async () => {
  const machine = new Machine();
  machine.program("bin/embercoach");
  const settings = { ...DEFAULTS, path: "/nowhere/embercoach" };
  await assert.rejects(chooseProgram(settings, machine.surroundings()), (error) => {
    assert.ok(error instanceof LaunchError);
    return error.message.includes("`embercoach.path` must be an executable file");
  });
});

test("the selected interpreter comes before those of PATH", async () => {
  const machine = new Machine();
  const selected = machine.python("venv/bin/python");
  machine.python("bin/python3");
  const found = await chooseProgram(DEFAULTS, machine.surroundings({ selected }));
  assert.deepEqual([found.command, ...found.args], [selected, "-m", "embercoach"]);
});

test("an environment without the server's packages is passed over, and the log says why", async () => {
  const machine = new Machine();
  machine.python("bin/python3", { missing: ["pygls"] });
  const command = machine.program("bin/embercoach");
  const found = await chooseProgram(DEFAULTS, machine.surroundings());
  assert.equal(found.command, command);
  assert.match(machine.lines.join("\n"), /without pygls: run .* install "embercoach\[server\]"/);
});

test("the bundled one is the last, and runs isolated", async () => {
  const machine = new Machine();
  const python = machine.python("bin/python3", { version: null });
  machine.bundle();
  const found = await chooseProgram(DEFAULTS, machine.surroundings());
  const script = path.join(machine.root, "bundled", "run.py");
  assert.deepEqual([found.command, ...found.args], [python, "-I", script]);
});

test("useBundled does not use the environment", async () => {
  const machine = new Machine();
  machine.python("bin/python3");
  machine.bundle();
  const settings = { ...DEFAULTS, importStrategy: "useBundled" } as const;
  const found = await chooseProgram(settings, machine.surroundings());
  assert.equal(found.args[0], "-I");
});

test("nothing to start is an error that says what to install", async () => {
  const machine = new Machine();
  await assert.rejects(
    chooseProgram(DEFAULTS, machine.surroundings()),
    /pip install "embercoach\[server\]"/,
  );
});

test("an old Python is an error that names the version needed", async () => {
  const machine = new Machine();
  machine.python("bin/python3", { version: null, isSupported: false, python: "3.9" });
  machine.bundle();
  await assert.rejects(chooseProgram(DEFAULTS, machine.surroundings()), /Python 3\.10 or newer/);
  assert.match(machine.lines.join("\n"), /is Python 3\.9/);
});

test("no program inside a workspace that is not trusted is started", async () => {
  const machine = new Machine();
  const inside = machine.program("project/..hidden/embercoach");
  const selected = machine.python("project/.venv/bin/python");
  mkdirSync(path.join(machine.root, "bin"));
  symlinkSync(selected, path.join(machine.root, "bin", "python3"));
  const surroundings = machine.surroundings({ isTrusted: false, selected });
  await assert.rejects(
    chooseProgram({ ...DEFAULTS, path: inside }, surroundings),
    /inside a workspace that is not trusted/,
  );
  await assert.rejects(chooseProgram(DEFAULTS, surroundings), LaunchError);
  const trusted = await chooseProgram(DEFAULTS, machine.surroundings({ selected }));
  assert.equal(trusted.command, selected);
});

test("relative folders of PATH are not searched", async () => {
  const machine = new Machine();
  machine.program("bin/embercoach");
  const relative = path.relative(process.cwd(), path.join(machine.root, "bin"));
  await assert.rejects(chooseProgram(DEFAULTS, machine.surroundings({ path: [relative] })));
});

test("a folder is no program", async () => {
  const machine = new Machine();
  mkdirSync(path.join(machine.root, "bin", "embercoach"), { recursive: true });
  await assert.rejects(chooseProgram(DEFAULTS, machine.surroundings()), LaunchError);
});

test("on Windows, programs of PATH end in .exe, and python3 is not started", async () => {
  const machine = new Machine();
  machine.python("bin/python3.exe");
  machine.program("bin/embercoach");
  const onWindows = machine.surroundings({ platform: "win32" });
  await assert.rejects(chooseProgram(DEFAULTS, onWindows), LaunchError);
  const command = machine.program("bin/embercoach.exe");
  assert.equal((await chooseProgram(DEFAULTS, onWindows)).command, command);
  const launcher = machine.python("bin/py.exe");
  assert.equal((await chooseProgram(DEFAULTS, onWindows)).command, launcher);
  const python = machine.python("bin/python.exe");
  const found = await chooseProgram(DEFAULTS, onWindows);
  assert.deepEqual([found.command, ...found.args], [python, "-m", "embercoach"]);
});

test("on Windows, the settings may leave out .exe, and a script is an error", async () => {
  const machine = new Machine();
  const command = machine.program("a b/Scripts/embercoach.exe");
  const python = machine.python("a b/Scripts/python.exe");
  const onWindows = machine.surroundings({ platform: "win32" });
  const scripts = path.dirname(command);
  const direct = { ...DEFAULTS, path: path.join(scripts, "embercoach") };
  assert.equal((await chooseProgram(direct, onWindows)).command, command);
  const byPython = { ...DEFAULTS, interpreter: path.join(scripts, "python") };
  assert.equal((await chooseProgram(byPython, onWindows)).command, python);
  const script = { ...DEFAULTS, path: machine.program("embercoach.cmd") };
  await assert.rejects(chooseProgram(script, onWindows), /must be an executable file, got .*cmd/);
});

test("the file of a command", () => {
  assert.equal(executable("/usr/bin/python3.12", "darwin"), "/usr/bin/python3.12");
  assert.equal(executable("C:\\py\\python3.12", "win32"), "C:\\py\\python3.12.exe");
  assert.equal(executable("C:\\py\\PYTHON.EXE", "win32"), "C:\\py\\PYTHON.EXE");
});

test("on Windows, a place is inside a folder whatever the case of its letters", () => {
  assert.equal(isInside("c:\\Project\\.venv\\e.exe", "C:\\project", path.win32), true);
  assert.equal(isInside("C:\\project\\..e\\e.exe", "C:\\project", path.win32), true);
  assert.equal(isInside("C:\\project2\\e.exe", "C:\\project", path.win32), false);
  assert.equal(isInside("D:\\project\\e.exe", "C:\\project", path.win32), false);
});
