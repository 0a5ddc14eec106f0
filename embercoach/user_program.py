"""Runs a user's program in this interpreter, as ``python`` would."""

from __future__ import annotations

import runpy
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

#: Modules whose frames stand between ours and the program's.
_LOADERS = ("runpy", "importlib._bootstrap", "importlib._bootstrap_external")
FORMS = ("script", "module", "code")
#: The exit code of a program that could not be started, as of `embercoach.cli.entry.INCOMPLETE`.
FAILED = 2


def run(form: str, target: str, arguments: list[str]) -> int:
    """Run a script, a module or a piece of code as ``python`` does.

    Args:
        form: one of ``FORMS``.
        target: the script's path, the module's name, or the code.
        arguments: of the program.

    Returns:
        The exit code, as the interpreter would give it.
    """
    sys.argv = [target if form == "script" else "-c" if form == "code" else target, *arguments]
    try:
        if form == "script" and Path(target).is_dir():
            runpy.run_path(target, run_name="__main__")
        elif form == "script":
            _prepend(str(Path(target).resolve().parent))
            _execute(SourceFileLoader("__main__", str(Path(target).absolute())))
        elif form == "module":
            _prepend(str(Path.cwd()))
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            _prepend("")
            exec(compile(target, "<string>", "exec"), _main_module().__dict__)
    except SystemExit as leaving:
        return _code(leaving)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # noqa: BLE001  (the interpreter would show it, too)
        error = error.with_traceback(_from_user(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _execute(loader: SourceFileLoader) -> None:
    """Run a script; `runpy.run_path` would change its name in `sys.argv`."""
    data = loader.get_data(loader.path)
    code = loader.source_to_code(data, loader.path)
    module = _main_module()
    module.__file__, module.__loader__ = loader.path, loader
    exec(code, module.__dict__)


def _main_module() -> ModuleType:
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__["__cached__"] = None
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    return module


def _prepend(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    print(leaving.code, file=sys.stderr)  # noqa: T201
    return 1


def _from_user(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the user's first frame on."""
    while trace is not None and (
        trace.tb_frame.f_code.co_filename == __file__
        or trace.tb_frame.f_globals.get("__name__") in _LOADERS
    ):
        trace = trace.tb_next
    return trace
