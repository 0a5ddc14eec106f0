"""Kernels of mlx-lm and mlx-vlm: ``python -m tests.benchmarks.profile.packages`` records them.

A recording has the text of a kernel, its launch, and how to draw its inputs, so that a machine
without the packages measures them. It is not part of the repository.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlx.core as mx

from tests.benchmarks.profile.case import Case, Launched, random_array
from xlstm_kernels.kernel import Kernel, Launch

RECORDED = Path(".embercoach_corpus") / "profile-launches.json"
#: Inputs of at most so many elements keep their values.
KEPT = 256


def package_cases(path: Path = RECORDED) -> Iterator[Case]:
    """Cases of the recorded kernels; none without a recording."""
    if not path.exists():
        return
    for name, record in json.loads(path.read_text(encoding="utf-8")).items():
        yield Case(name, record["package"], partial(_read, record))


def _read(record: dict[str, Any]) -> Launched:
    launch = Launch(
        tuple(record["grid"]),
        tuple(record["threadgroup"]),
        tuple(map(tuple, record["output_shapes"])),
        tuple(getattr(mx, dtype) for dtype in record["output_dtypes"]),
        tuple((name, _value(value)) for name, value in record["template"]),
    )
    kernel = Kernel(
        record["name"],
        tuple(record["inputs"]),
        tuple(record["outputs"]),
        record["body"],
        lambda *_: launch,
        record["header"],
        record["init_value"],
    )
    arrays = [_drawn(given, seed) for seed, given in enumerate(record["arrays"])]
    return Launched(kernel, tuple(arrays), launch)


def _value(value: str | int | bool) -> mx.Dtype | int | bool:
    return getattr(mx, value) if isinstance(value, str) else value


def _drawn(given: dict[str, Any], seed: int) -> mx.array:
    dtype, shape = getattr(mx, given["dtype"]), given["shape"]
    if "values" in given:
        return mx.array(given["values"], dtype=dtype).reshape(shape)
    if "least" not in given:
        return random_array(tuple(shape), dtype, seed)
    key = mx.random.key(seed)
    least, most = given["least"], given["most"]
    if mx.issubdtype(dtype, mx.floating):
        return mx.random.uniform(least, most, shape, key=key).astype(dtype)
    # Words of 32 bits: randint takes int32.
    drawn = mx.random.randint(min(least, 2**31 - 1), min(most + 1, 2**31 - 1), shape, key=key)
    return drawn.astype(dtype)


class Recording:
    """`mx.fast.metal_kernel` that notes launches and returns random outputs."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def __call__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str = "",
        ensure_row_contiguous: bool = True,
        atomic_outputs: bool = False,
    ) -> Callable[..., list[mx.array]]:
        def launch(
            *,
            inputs: Sequence[Any],
            output_shapes: Sequence[Sequence[int]],
            output_dtypes: Sequence[mx.Dtype],
            grid: Sequence[int],
            threadgroup: Sequence[int],
            template: Sequence[tuple[str, Any]] = (),
            init_value: float | None = None,
            **_: object,
        ) -> list[mx.array]:
            arrays = [given if isinstance(given, mx.array) else mx.array(given) for given in inputs]
            self.records.append(
                {
                    "name": name,
                    "inputs": [*input_names],
                    "outputs": [*output_names],
                    "body": source,
                    "header": header,
                    "init_value": init_value,
                    "grid": [*grid],
                    "threadgroup": [*threadgroup],
                    "template": [
                        (key, _name(value) if isinstance(value, mx.Dtype) else value)
                        for key, value in template
                    ],
                    "output_shapes": [[*shape] for shape in output_shapes],
                    "output_dtypes": [*map(_name, output_dtypes)],
                    "arrays": [*map(_described, arrays)],
                }
            )
            outputs = zip(output_shapes, output_dtypes, strict=True)
            return [random_array(tuple(shape), dtype) for shape, dtype in outputs]

        return launch


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _described(array: mx.array) -> dict[str, Any]:
    given: dict[str, Any] = {"shape": [*array.shape], "dtype": _name(array.dtype)}
    if array.size <= KEPT:
        return {**given, "values": mx.flatten(array).tolist()}
    if array.dtype == mx.bool_:
        return {**given, "least": 0, "most": 1}
    return {**given, "least": array.min().item(), "most": array.max().item()}


def record() -> dict[str, dict[str, Any]]:
    """Call the packages' wrappers; return the launch of each."""
    from embercoach.simulator import activate
    from tests.benchmarks.profile.package_calls import CALLS

    found: dict[str, dict[str, Any]] = {}
    recording = Recording()
    with activate(), patch.object(mx.fast, "metal_kernel", recording):
        for name, (module, call) in CALLS.items():
            recording.records.clear()
            try:
                mx.eval(call(import_module(module)))
            except (AttributeError, ImportError, TypeError, ValueError) as error:
                sys.stdout.write(f"{name}: {error!r}\n")
            if not recording.records:
                sys.stdout.write(f"{name}: no launch\n")
                continue
            package = module.partition(".")[0].replace("_", "-")
            found[name] = {"package": package, **recording.records[0]}
    return found


def main() -> int:
    """Write the recording."""
    mx.set_default_device(mx.cpu)
    found = record()
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.write(f"{len(found)} kernels in {RECORDED}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
