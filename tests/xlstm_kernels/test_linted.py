"""Every kernel of the pack as it is built and launched, read by EmberCoach's own linter.

Where a body is put together from parts, the linter does not see its text in the pack's sources.
Here each one is written out whole, with a launch that an operator made of it, and linted so.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import jinja2
import mlx.core as mx
import pytest

import xlstm_kernels as pack
from embercoach.checks import Project, check_metal, check_source
from embercoach.finding import Finding
from tests.benchmarks.profile.case import recording
from xlstm_kernels import executors, linalg
from xlstm_kernels.executors.mps_source import ArrayMetadata, mps_source
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.search import FlatIndex, IVFFlatIndex, IVFPQIndex, top_k

Shapes = tuple[tuple[tuple[int, ...], mx.Dtype], ...]

pytestmark = pytest.mark.exhaustive
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
BATCH, HEADS, STEPS, KEYS, VALUES = 2, 3, 70, 24, 40


def arrays_in(result: object) -> Iterator[mx.array]:
    if isinstance(result, mx.array):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from arrays_in(part)


def differentiate(operator: Callable, *arrays: mx.array, **settings: object) -> None:
    """Launch what an operator launches, forward and backward."""

    def total(*given: mx.array) -> mx.array:
        result = operator(*given, **settings, backend="recording")
        return sum(part.astype(mx.float32).sum() for part in arrays_in(result))

    mx.eval(mx.grad(total, argnums=tuple(range(len(arrays))))(*arrays))
    mx.eval(*arrays_in(operator(*arrays, **settings, backend="recording")))


def each_setting(**choices: Sequence[object]) -> Iterator[dict[str, object]]:
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def run_small_operators() -> None:
    x, weight = mx.ones((4, 96)), mx.ones((96,))
    differentiate(pack.soft_cap, x, cap_value=15.0)
    differentiate(pack.rms_norm, x)
    differentiate(pack.rms_norm, x, weight)
    heads, gate = mx.ones((2, 3, 4, 24)), mx.ones((2, 3, 96))
    for norm in (pack.multi_head_layer_norm, pack.multi_head_rms_norm):
        for options in each_setting(weight=(None, weight), bias=(None, weight), gate=(None, gate)):
            names = [name for name, value in options.items() if value is not None]

            def finished(x: mx.array, *given: mx.array, backend: str, n=names, norm=norm):
                return norm(x, **dict(zip(n, given, strict=True)), backend=backend)

            differentiate(finished, heads, *(options[name] for name in names))
    quantized = mx.quantize(mx.ones((8, 64)), bits=4)

    def multiplied(x: mx.array, backend: str) -> mx.array:
        return pack.quantized_matvec(x, *quantized, backend=backend)

    differentiate(multiplied, mx.ones((8, 64)))
    mx.eval(multiplied(mx.ones((8, 64), dtype=mx.bfloat16), backend="recording"))
    differentiate(pack.complex_multiply, mx.ones((9, 2)), mx.ones((9, 2)))
    double = pack.DoubleFloat(mx.ones((9, 2)), mx.zeros((9, 2)))
    mx.eval(pack.complex_multiply(double, double, backend="recording").high)


def run_double_float() -> None:
    a = pack.DoubleFloat(mx.ones((40, 40)), mx.zeros((40, 40)))
    with pack.default_backend("recording"):
        results = [a + a, a * a, a / a, a.exp(), a.log(), a.sqrt(), a.sum(), a.vecdot(a), a @ a]
    mx.eval([result.high for result in results])


def run_decompositions() -> None:
    for shape in ((2, 6, 4), (1, 4, 6), (1, 64, 64), (1, 100, 128)):
        a = mx.ones(shape)
        differentiate(linalg.svd, a, full_matrices=False)
        differentiate(linalg.svdvals, a)
    for rows in (5, 64, 100):
        differentiate(linalg.eigh, mx.ones((1, rows, rows)))
        differentiate(linalg.eigvalsh, mx.ones((1, rows, rows)))
    for shape in ((5, 8, 6), (2, 96, 96)):
        differentiate(linalg.qr, mx.ones(shape))
        mx.eval(linalg.qr(mx.ones(shape), "r", backend="recording"))


def run_linear_algebra() -> None:
    a, b = mx.broadcast_to(mx.eye(12), (3, 12, 12)), mx.ones((3, 12, 2))
    differentiate(linalg.cholesky, a)
    differentiate(linalg.cholesky, mx.eye(70))
    differentiate(linalg.solve_triangular, a, b)
    differentiate(linalg.solve, a, b)


def run_convolutions() -> None:
    x, weight, bias, state = mx.ones((2, 40, 20)), mx.ones((20, 4)), mx.ones((20,)), (2, 3, 20)
    for activation, last in product((None, "silu"), (False, True)):
        settings = {"activation": activation, "return_final_states": last}
        differentiate(pack.causal_conv1d, x, weight, **settings)
        differentiate(pack.causal_conv1d, x, weight, bias, **settings)
        differentiate(pack.causal_conv1d, x, weight, bias, mx.ones(state), **settings)

        def without_bias(x, weight, initial, *, backend: str, s=settings):
            return pack.causal_conv1d(x, weight, None, initial, **s, backend=backend)

        differentiate(without_bias, x, weight, mx.ones(state))
    for activation in (None, "silu"):
        packed = {"activation": activation, "seq_idx": mx.zeros((2, 40), dtype=mx.int32)}
        differentiate(pack.causal_conv1d, x, weight, **packed)
        differentiate(pack.causal_conv1d, x, weight, bias, **packed)
        step = (x[:, :1], mx.ones(state), weight)
        differentiate(pack.causal_conv1d_update, *step, activation=activation)
        differentiate(pack.causal_conv1d_update, *step, bias, activation=activation)


def run_mlstm() -> None:
    keys, values = mx.ones((BATCH, HEADS, STEPS, KEYS)), mx.ones((BATCH, HEADS, STEPS, VALUES))
    gate, mask = mx.zeros((BATCH, HEADS, STEPS)), mx.ones((BATCH, STEPS), dtype=mx.bool_)
    states = mx.ones((BATCH, HEADS, KEYS, VALUES)), mx.ones((BATCH, HEADS, KEYS))
    arrays, m = (keys, keys, values, gate, gate), mx.ones((BATCH, HEADS, 1))
    shared = {"mask": (None, mask), "return_last_states": (False, True)}
    for form in (pack.mlstm_chunkwise, pack.mlstm_sequence):
        own = {"chunk_size": (32,)}
        choices = shared | {"normalizer_grad": (True, False)}
        for settings in each_setting(**choices, **own if form is pack.mlstm_chunkwise else {}):
            differentiate(form, *arrays, **settings)
            differentiate(form, *arrays, *states, m, **settings)
    numbers = mx.zeros((BATCH, STEPS), dtype=mx.int32)
    differentiate(pack.mlstm_chunkwise, *arrays, chunk_size=32, seq_idx=numbers)
    halves = (array.astype(mx.bfloat16) for array in arrays)
    differentiate(pack.mlstm_chunkwise, *halves, chunk_size=32)
    for settings in each_setting(**shared, normalize=(True, False), chunk_size=(32, 128)):
        differentiate(pack.mlstm_siging_chunkwise, *arrays, **settings)
        differentiate(pack.mlstm_siging_chunkwise, *arrays, *states, **settings)
    step = [array[:, :, 0] for array in arrays]
    for through in (True, False):
        differentiate(pack.mlstm_step, *step, *states, m, normalizer_grad=through)


def run_slstm() -> None:
    for width in (8, 32, 96):
        recurrent, bias = mx.ones((4, 2, width, width)), mx.ones((4, 2, width))
        sequence = mx.ones((2, 5, 4, 2, width))
        masks = (None, mx.ones((2, 5), dtype=mx.bool_))
        for settings in each_setting(
            mask=masks, gradient_recurrent_clipval=(None, 1.0), gradient_recurrent_cut=(False, True)
        ):
            differentiate(pack.slstm, sequence, recurrent, bias, **settings)
        for cut in (False, True):
            packed = {"seq_idx": mx.ones((2, 5), dtype=mx.int32), "gradient_recurrent_cut": cut}
            differentiate(pack.slstm, sequence, recurrent, bias, **packed)
        states = mx.ones((4, 2, 2, width))
        differentiate(pack.slstm_step, sequence[:, 0], recurrent, bias, states)


def run_search() -> None:
    vectors = mx.ones((256, 64))
    for metric in ("l2", "inner_product"):
        inverted = IVFFlatIndex(64, 4, metric), *(IVFPQIndex(64, 4, m, metric) for m in (8, 64))
        for index in (FlatIndex(64, metric), *inverted):
            if not isinstance(index, FlatIndex):
                index.train(vectors)
            index.add(vectors)
            for k in (10, 40):
                mx.eval(index.search(vectors[:8], k, backend="recording"))
    mx.eval(top_k(mx.ones((8, 3000)), 10, backend="recording"))


RUNS = (
    run_small_operators,
    run_double_float,
    run_linear_algebra,
    run_decompositions,
    run_convolutions,
    run_mlstm,
    run_slstm,
    run_search,
)

WRITTEN_OUT = jinja2.Template(
    '''\
import mlx.core as mx

kernel = mx.fast.metal_kernel(
    name="{{ kernel.name }}",
    input_names={{ kernel.inputs | list }},
    output_names={{ kernel.outputs | list }},
    source=r"""{{ kernel.body }}""",
    header=r"""{{ kernel.header }}""",
    ensure_row_contiguous={{ kernel.contiguous_inputs }},
)
outputs = kernel(
    inputs=[{% for shape, dtype in inputs %}mx.zeros({{ shape }}, dtype={{ dtype }}), {% endfor %}],
    template=[{% for pair in launch.template %}("{{ pair[0] }}", {{ pair[1] }}), {% endfor %}],
    grid={{ launch.grid }},
    threadgroup={{ launch.threadgroup }},
    output_shapes={{ launch.output_shapes | list }},
    output_dtypes=[{{ launch.output_dtypes | join(", ") }}],
    init_value={{ kernel.init_value }},
)
''',
    undefined=jinja2.StrictUndefined,
)


def written_out(kernel: Kernel, inputs: Shapes, launch: Launch, without: str = "") -> str:
    """A program that builds a kernel from its whole text and launches it."""
    text = WRITTEN_OUT.render(kernel=kernel, inputs=inputs, launch=launch)
    assert text.count('"""') == 4
    if without:
        assert without in text
        text = text.replace(without, "")
    # How dtypes print; one of them is `mx.bool_`.
    return text.replace("mlx.core.bool", "mx.bool_").replace("mlx.core.", "mx.")


def findings_of(kernel: Kernel, text: str) -> tuple[Finding, ...]:
    return check_source(text, Path(f"{kernel.name}.py"), Project()).findings


@pytest.fixture(scope="module")
def launches() -> dict[Kernel, tuple[Shapes, Launch]]:
    with recording() as executor:
        for run in RUNS:
            run()
    return {
        made.kernel: (tuple((array.shape, array.dtype) for array in made.inputs), made.launch)
        for made in executor.launches
    }


def test_every_kernel_is_launched(launches) -> None:
    """What no operator can launch is dead text, and would go unread."""
    gc.unfreeze()  # conftest.py freezes what collection has built
    built = {(k.name, k.body) for k in gc.get_objects() if isinstance(k, Kernel)}
    ours = {(name, body) for name, body in built if name.startswith("xlstm_")}
    assert len(ours) > 80
    assert ours == {(kernel.name, kernel.body) for kernel in launches}


def test_the_linter_has_nothing_to_say(launches) -> None:
    """Of any severity, notes among them."""
    for kernel, (inputs, launch) in launches.items():
        text = written_out(kernel, inputs, launch)
        assert findings_of(kernel, text) == (), kernel.name


def text_for_pytorch(kernel: Kernel, inputs: Shapes, launch: Launch) -> str:
    return mps_source(kernel, [ArrayMetadata(*given) for given in inputs], launch).text


def parameters(text: str) -> list[str]:
    """The parameters of the kernel that a text defines, in order."""
    listed = text.partition("[[kernel]] void ")[2].partition(") {\n")[0]
    return [line.strip().rstrip(",") for line in listed.splitlines()[1:]]


def template_arguments(text: str) -> str:
    """Those of the instance at the end of a text; of one without a template, nothing."""
    return text.partition("[[kernel]] decltype(")[2].partition("<")[2].partition(">")[0]


def test_texts_for_pytorch_have_the_parameters_that_mlx_writes(launches) -> None:
    for kernel, (inputs, launch) in launches.items():
        arrays = [mx.zeros(shape, dtype=dtype) for shape, dtype in inputs]
        theirs = executors.generated_source(kernel, arrays, launch)
        ours = text_for_pytorch(kernel, inputs, launch)
        # Small arrays are in constant memory there.
        of_arrays = {f"* {name} [" for name in kernel.inputs}
        expected = [
            text.replace("const constant", "const device")
            if any(a in text for a in of_arrays)
            else text
            for text in parameters(theirs)
        ]
        assert expected
        assert parameters(ours) == expected, kernel.name
        assert template_arguments(ours) == template_arguments(theirs), kernel.name
        assert kernel.header in ours
        assert kernel.body in ours


def test_the_linter_has_nothing_to_say_about_texts_for_pytorch(launches) -> None:
    for kernel, (inputs, launch) in launches.items():
        text = text_for_pytorch(kernel, inputs, launch)
        assert check_metal(text).findings == (), kernel.name
