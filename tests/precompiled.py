"""A precompiled header for the functions that MLX compiles on a CPU: 0.3 s each instead of 1.4 s.

The suite compiles some two hundred, except those in MLX's cache in the folder of temporary files.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

HEADER = "mlx/backend/cpu/compiled_preamble.h"
#: MLX's options. Where they differ, GCC ignores the precompiled header and reads the other one.
OPTIONS = "-std=c++17 -O3 -Wall -fPIC"
#: The first call makes the header. Those that run meanwhile do without.
WRAPPER = """\
#!/bin/sh
made={folder}/{header}.gch
if mkdir "$made.new" 2>/dev/null; then
    {compiler} {options} -I {include} -x c++-header {include}/{header} -o "$made.new/made" \\
        2>/dev/null && mv "$made.new/made" "$made"
fi
exec {compiler} -I {folder} "$@"
"""


def use_precompiled_header(cache: Path) -> None:
    """Put a `g++` before the one of PATH, for this process and for those that it starts.

    Args:
        cache: a folder that remains from one run to the next.
    """
    compiler = shutil.which("g++")
    spec = find_spec("mlx")
    if sys.platform != "linux" or compiler is None or spec is None:
        return
    if cache in Path(compiler).parents:
        return  # a worker of xdist has the PATH of its parent
    for place in spec.submodule_search_locations or []:
        include = Path(place, "include")
        if (include / HEADER).is_file():
            programs = write_wrapper(cache, compiler, include)
            os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
            return


def write_wrapper(cache: Path, compiler: str, include: Path) -> Path:
    """Write a `g++` for this compiler and this header; return its folder."""
    times = [Path(one).stat().st_mtime_ns for one in (compiler, include / HEADER)]
    folder = cache / "-".join(map(str, times))
    wrapper = folder / "bin/g++"
    if not wrapper.exists():
        (folder / HEADER).parent.mkdir(parents=True, exist_ok=True)
        wrapper.parent.mkdir(exist_ok=True)
        new = wrapper.with_name(f"{os.getpid()}")
        new.write_text(
            WRAPPER.format(
                folder=quote(str(folder)),
                header=HEADER,
                compiler=quote(compiler),
                options=OPTIONS,
                include=quote(str(include)),
            ),
            encoding="utf-8",
        )
        new.chmod(0o755)
        new.replace(wrapper)
    return wrapper.parent
