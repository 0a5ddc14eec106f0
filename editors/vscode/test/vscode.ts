/**
 * The module `vscode` of the unit tests, which `esbuild.mjs` puts in place of the editor's.
 *
 * Tests set `state`.
 */

type Listener = (event: unknown) => unknown;

class Disposable {
  static from(...all: { dispose: () => unknown }[]): Disposable {
    return new Disposable(() => all.map((one) => one.dispose()));
  }

  constructor(readonly dispose: () => unknown) {}
}

class EventEmitter {
  private readonly listeners = new Set<Listener>();
  readonly event = (listener: Listener): Disposable => {
    this.listeners.add(listener);
    return new Disposable(() => this.listeners.delete(listener));
  };

  fire(event?: unknown): void {
    for (const listener of this.listeners) {
      listener(event);
    }
  }

  dispose(): void {
    this.listeners.clear();
  }
}

const state = {
  isTrusted: true,
  folders: [] as string[],
  settings: {} as Record<string, unknown>,
  /** The installed extensions. */
  extensions: {} as Record<string, unknown>,
  /** What the extension logs and shows. */
  lines: [] as string[],
  trustGranted: new EventEmitter(),
};

const log = (line: unknown): void => {
  state.lines.push(String(line));
};
const nothing = (): Disposable => new Disposable(() => undefined);

const members = {
  state,
  version: "1.91.0",
  Disposable,
  EventEmitter,
  commands: { registerCommand: nothing },
  extensions: { getExtension: (name: string) => state.extensions[name] },
  languages: {},
  window: {
    createOutputChannel: () => ({ info: log, warn: log, error: log, dispose: nothing }),
    showErrorMessage: (message: string) => {
      log(message);
      return Promise.resolve(undefined);
    },
  },
  workspace: {
    get isTrusted() {
      return state.isTrusted;
    },
    get workspaceFolders() {
      return state.folders.map((fsPath) => ({ uri: { scheme: "file", fsPath } }));
    },
    getConfiguration: () => ({ get: (name: string) => state.settings[name] }),
    onDidChangeConfiguration: nothing,
    onDidGrantWorkspaceTrust: state.trustGranted.event,
    registerTextDocumentContentProvider: nothing,
  },
};

/** The classes that the language client extends. */
const EXTENDED = [
  "CallHierarchyItem",
  "CancellationError",
  "CodeAction",
  "CodeLens",
  "CompletionItem",
  "Diagnostic",
  "DocumentLink",
  "InlayHint",
  "SymbolInformation",
  "TypeHierarchyItem",
];

export = {
  ...Object.fromEntries(EXTENDED.map((name) => [name, Object])),
  ...members,
};
