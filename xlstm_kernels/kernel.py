"""A GPU kernel as data: its names, its text, and the rule that turns input arrays into a launch.

A `Kernel` knows nothing about where it runs. Calling it picks an executor (see
`xlstm_kernels.executors`), which gets the kernel, the inputs, and the `Launch` that the kernel's
rule made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx

from xlstm_kernels import executors

#: A setting of a call: what a launch rule may ask for in addition to arrays.
Setting: TypeAlias = mx.Dtype | int | bool


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel: host metadata only, so that making it never evaluates an array.

    Attributes:
        grid: number of *threads* (not threadgroups) along x, y and z. A zero means: no work.
        threadgroup: threads of a threadgroup along x, y and z. MLX clamps it to the grid, so a
            body that relies on whole threadgroups needs a grid that is a multiple of it.
        output_shapes: shape of each output, in the order of `Kernel.outputs`.
        output_dtypes: dtype of each output, in the same order.
        template: name and value of each template argument of the body. Each new combination of
            values compiles the kernel anew.
    """

    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    output_shapes: tuple[tuple[int, ...], ...]
    output_dtypes: tuple[mx.Dtype, ...]
    template: tuple[tuple[str, Setting], ...] = ()

    @classmethod
    def of_groups(
        cls,
        groups: int,
        threads: int,
        *shapes: tuple[int, ...],
        dtype: mx.Dtype = mx.float32,
        **template: Setting,
    ) -> Launch:
        """Launch `groups` threadgroups along x, with outputs of these shapes and one dtype."""
        return cls(
            grid=(groups * threads, 1, 1),
            threadgroup=(threads, 1, 1),
            output_shapes=shapes,
            output_dtypes=(dtype,) * len(shapes),
            template=tuple(template.items()),
        )

    @classmethod
    def of_elements(
        cls, array: mx.array, pack: int, *, outputs: int = 1, **template: Setting
    ) -> Launch:
        """Launch a thread for each `pack` elements; the outputs are like `array`.

        The template has `Index`, a type of the first index after the last pack: those of 32 bits
        are faster.
        """
        index = mx.uint32 if array.size < 2**31 else mx.int64
        return cls(
            grid=(-(-array.size // pack), 1, 1),
            threadgroup=(256, 1, 1),
            output_shapes=(array.shape,) * outputs,
            output_dtypes=(array.dtype,) * outputs,
            template=(("T", array.dtype), ("Index", index), ("PACK", pack), *template.items()),
        )

    @property
    def empty(self) -> bool:
        """True when the launch has no thread at all."""
        return 0 in self.grid


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in the Metal Shading Language, called like a function of arrays.

    The body follows MLX's contract. It is the inside of the function; MLX writes the signature
    from the names. An input of fewer than 8 elements arrives as `const constant T*`, a bigger one
    as `const device T*` (so let `auto` name the type of a pointer into it), a 0-d one as
    `const constant T&`; an output as `device T*`, uninitialised. `<input>_shape` and attributes
    such as `thread_position_in_grid` are parameters where `body` names them, never where only
    `header` does. A body checks its bounds: some executors round the grid up to whole threadgroups.

    Attributes:
        name: names the compiled function: a C identifier, and no other body's name.
        inputs: parameter name of each input array.
        outputs: parameter name of each output array.
        body: MSL statements.
        launch: called with the input arrays and the settings of the call, returns the `Launch`:
            grid, threadgroup, shapes and dtypes of the outputs, and the template. It reads shapes
            and dtypes, never values.
        header: MSL before the function: includes, helper functions, constants.
        init_value: what every element of every output holds before the body runs, or None for
            memory as it was found, which the body then has to write whole.
        contiguous_inputs: True lets MLX copy inputs that are not row-contiguous, so that the body
            may count elements. False gives every input as it lies, and the body reads all of them
            through `<input>_strides` (in elements).
        resident_threadgroups: how many of up to 256 threads a core of a GPU should hold at once. On
            CUDA this limits the registers of a thread; Metal takes no such hint.

    Raises:
        ValueError: for a name that is not a C identifier, names that collide, or no output at all.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    launch: Callable[..., Launch]
    header: str = ""
    init_value: float | None = None
    contiguous_inputs: bool = True
    resident_threadgroups: int = 1

    def __post_init__(self) -> None:
        parameters = (*self.inputs, *self.outputs)
        for identifier in (self.name, *parameters):
            if not (identifier.isascii() and identifier.isidentifier()):
                raise ValueError(f"kernel {self.name!r}: {identifier!r} is not a C identifier")
        if len(set(parameters)) != len(parameters):
            raise ValueError(
                f"kernel {self.name!r}: inputs and outputs share one signature, so their names "
                f"must differ, got {', '.join(parameters)}"
            )
        if not self.outputs:
            raise ValueError(f"kernel {self.name!r}: a kernel needs at least one output")

    @executors.on_stream
    def __call__(
        self,
        *inputs: mx.array,
        backend: str | None = None,
        verbose: bool = False,
        stream: executors.StreamLike = None,
        **settings: Setting,
    ) -> tuple[mx.array, ...]:
        """Run the kernel and return its outputs, lazily, in the order of `outputs`.

        A launch without threads runs nothing and gives `init_value`, or zeros.

        Args:
            *inputs: one array for each name in `self.inputs`.
            backend: name of the executor, or None for the first one that can run here.
            verbose: print the source that MLX generates, which `generated_source` returns.
            **settings: what the launch rule asks for of the host, such as a size of blocks.

        Raises:
            ValueError: for an incorrect number of inputs, or an unknown backend.
            RuntimeError: if that executor, or with None every executor, cannot run here. A bare
                kernel has no pure-MLX path to fall back to; the operators of this package have.
        """
        executor = executors.choose(backend)
        launch = self._launch(inputs, settings)
        if launch.empty:
            value = 0 if self.init_value is None else self.init_value
            return tuple(
                mx.full(shape, value, dtype=dtype)
                for shape, dtype in zip(launch.output_shapes, launch.output_dtypes, strict=True)
            )
        return tuple(executor.run(self, inputs, launch, verbose=verbose))

    def generated_source(self, *inputs: mx.array, **settings: Setting) -> str:
        """Return the whole Metal source that MLX writes for a launch on such inputs.

        Needs no Metal and runs nothing: shapes and dtypes of the inputs are all it looks at.
        Arguments are those of a call.

        Raises:
            ValueError: for an incorrect number of inputs, a launch without threads, or one that MLX
                refuses.
        """
        launch = self._launch(inputs, settings)
        if launch.empty:
            raise ValueError(f"kernel {self.name!r}: a launch without threads has no source")
        return executors.generated_source(self, inputs, launch)

    def _launch(self, inputs: Sequence[mx.array], settings: Mapping[str, Setting]) -> Launch:
        if len(inputs) != len(self.inputs):
            raise ValueError(
                f"kernel {self.name!r} takes {len(self.inputs)} inputs "
                f"({', '.join(self.inputs)}), got {len(inputs)}"
            )
        return self.launch(*inputs, **settings)
