"""Kernels of `mx.fast.cuda_kernel` whose compiled code MLX finds in its cache.

`mx.fast.precompiled_cuda_kernel` takes code too, but copies and hashes all of it in each launch,
passes neither shapes nor strides. A kernel of a text has a short one, and MLX looks for its code in
a cache of compiled kernels before it compiles it. The text itself is an error, lest anything else
runs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from embercoach.cuda.launch_entry import CudaError, EntryForm
from embercoach.files import is_own

if TYPE_CHECKING:
    from embercoach.simulator.session.record import CapturedDefinition

_FOLDER_VARIABLE = "MLX_PTX_CACHE_DIR"
#: The variables that name the folder of temporary files to C++.
_TEMPORARY = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
_TEXT = '#error "MLX has not found the code that EmberCoach compiled; set MLX_PTX_CACHE_DIR"\n// '
GEOMETRY = "ember_geometry"


def compiled_kernel(
    name: str,
    code: bytes,
    definition: CapturedDefinition,
    form: EntryForm,
    *,
    contiguous: bool,
    inputs: Sequence[mx.array],
    output_dtypes: Sequence[mx.Dtype],
) -> Callable[..., list[mx.array]]:
    """Return a kernel of MLX that runs compiled code.

    Args:
        name: of the function in the code.
        code: PTX, or code of the GPU.
        definition: of the Metal kernel.
        form: of the launched function.
        contiguous: whether MLX copies inputs that are not row-contiguous.
        inputs: arrays of the dtypes and dimensions of those of all launches.
        output_dtypes: of the outputs.

    Raises:
        CudaError: the cache can't be written.
    """
    names = [*definition.input_names, *([GEOMETRY] if form.measured else [])]
    asked = [
        f"{array}_{what}"
        for array, info in zip(definition.input_names, form.infos, strict=True)
        for flag, what in zip(info.asked, ("shape", "strides", "ndim"), strict=True)
        if flag
    ]
    kernel: Any = mx.fast.cuda_kernel(
        name=name,
        input_names=names,
        output_names=list(definition.output_names),
        source=_TEXT + " ".join(asked),
        ensure_row_contiguous=contiguous,
    )
    function, text = _generated(kernel, inputs, output_dtypes)
    _store(f"{function}_{_hash(text):x}", code, f"mlx::core::cu::{function}\t{name}\n")
    return kernel  # type: ignore[no-any-return]


def _generated(
    kernel: Any, inputs: Sequence[mx.array], output_dtypes: Sequence[mx.Dtype]
) -> tuple[str, str]:
    """Return the name and the text of the function that MLX generates; nothing is run."""
    records: list[dict[str, Any]] = []

    def call(*examples: mx.array) -> Any:
        return kernel(
            inputs=list(examples),
            output_shapes=[(1,)] * len(output_dtypes),
            output_dtypes=list(output_dtypes),
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            stream=mx.gpu,
        )

    mx.export_function(records.append, call, *inputs)
    (launch,) = (record for record in records if record.get("name") == "CustomKernel")
    function, text, *_ = launch["arguments"]
    return function, text


def _hash(text: str) -> int:
    """Return `std::hash` of a text, as the library of MLX computes it."""
    data = text.encode()
    return int(_hash_bytes()(data, len(data), 0xC70F6907))


@functools.cache
def _hash_bytes() -> Any:
    function = ctypes.CDLL("libstdc++.so.6")["_ZSt11_Hash_bytesPKvmm"]
    function.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)
    function.restype = ctypes.c_size_t
    return function


def _folder() -> Path:
    """Return the folder that MLX looks in."""
    named = os.environ.get(_FOLDER_VARIABLE)
    if named:
        return Path(named)
    temporary = next(filter(None, map(os.environ.get, _TEMPORARY)), "/tmp")
    return Path(temporary) / "mlx" / metadata.version("mlx") / "ptx"


def _store(module: str, code: bytes, functions: str) -> None:
    """Keep a module's code, and the names of its functions, as MLX does."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not is_own(folder.resolve(), S_ISDIR):
            raise CudaError(
                f"MLX's folder of compiled kernels, {folder}, belongs to another user; set "
                f"{_FOLDER_VARIABLE} to a folder of yours before MLX is used"
            )
        # MLX takes the names once the code is there.
        for suffix, data in ((".txt", functions.encode()), (".ptx", code)):
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(data)
            Path(file.name).replace(folder / f"{module}{suffix}")
    except OSError as error:
        raise CudaError(f"cannot write compiled kernels to {folder}: {error.strerror}") from error
