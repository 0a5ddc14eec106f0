"""Writes the table of MLX's public API from an installed MLX, which it reads but never imports.

    python -m tests.api_table.generate [--check] [--mlx PATH]

Raw entries come from `sources`, then `corrections` and `behaviour` are merged in. `--check` writes
nothing and fails where the table is stale. A correction of a name that MLX does not have is an
error: a new MLX is looked at, not guessed.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from embercoach.analysis import mlx_api
from embercoach.analysis.mlx_api.result_expressions import Result, parse_result
from tests.api_table import corrections
from tests.api_table.corrections import Correction
from tests.api_table.stub_sources import (
    Accepts,
    RawEntry,
    RawParam,
    StubSources,
    read_sources,
)

# Forces evaluation of an array (or, `async_eval`, schedules it): the lazy graph ends here.
SYNC = """
    core.async_eval core.eval core.from_dlpack core.save core.save_gguf core.save_safetensors
    core.savez core.savez_compressed nn.Module.save_weights
    core.array.__array__ core.array.__bool__ core.array.__bytes__ core.array.__complex__
    core.array.__dlpack__ core.array.__float__ core.array.__format__ core.array.__getstate__
    core.array.__index__ core.array.__int__ core.array.__reduce_ex__ core.array.__repr__
    core.array.__str__ core.array.item core.array.tolist
"""

# Arithmetic and comparison on several operands, element by element, any of which may be a number.
ELEMENTWISE = """
    core.add core.arctan2 core.bitwise_and core.bitwise_or core.bitwise_xor core.clip core.divide
    core.divmod core.equal core.floor_divide core.greater core.greater_equal core.left_shift
    core.less core.less_equal core.logaddexp core.logical_and core.logical_or core.logical_xor
    core.maximum core.minimum core.multiply core.not_equal core.power core.remainder
    core.right_shift core.subtract core.where
    core.ArrayAt.add core.ArrayAt.divide core.ArrayAt.maximum core.ArrayAt.minimum
    core.ArrayAt.multiply core.ArrayAt.subtract
"""

# Parameters, in brackets, that MLX refuses a complex64 array for as soon as the call is made.
REAL_ONLY = """
    core.arctan2(a,b) core.bitwise_and(a,b) core.bitwise_invert(a) core.bitwise_or(a,b)
    core.bitwise_xor(a,b) core.ceil(a) core.conv1d(input) core.conv2d(input) core.conv3d(input)
    core.conv_general(input) core.conv_transpose1d(input) core.conv_transpose2d(input)
    core.conv_transpose3d(input) core.convolve(a) core.dequantize(w,scales,biases) core.divmod(a,b)
    core.erf(a) core.erfinv(a) core.expm1(a) core.floor(a) core.from_fp8(x)
    core.gather_qmm(x,w,scales,biases) core.left_shift(a,b) core.nan_to_num(a) core.quantize(w)
    core.quantized_matmul(x,w,scales,biases) core.remainder(a,b) core.right_shift(a,b)
    core.segmented_mm(a,b,segments) core.sigmoid(a) core.slice(start_indices)
    core.slice_update(start_indices) core.take(indices) core.to_fp8(x) core.trunc(a)
    core.fast.cross_entropy(logits,targets) core.fast.layer_norm(x,weight,bias)
    core.fast.rms_norm(x,weight) core.fast.rope(a) core.fast.scaled_dot_product_attention(q,k,v)
    core.linalg.cholesky(a) core.linalg.cholesky_inv(a) core.linalg.det(a) core.linalg.inv(a)
    core.linalg.lu(a) core.linalg.lu_factor(a) core.linalg.pinv(a) core.linalg.qr(a)
    core.linalg.slogdet(a) core.linalg.solve(a,b) core.linalg.solve_triangular(a,b)
    core.linalg.tri_inv(a) core.random.bernoulli(p) core.random.split(key)
    nn.gelu(x) nn.gelu_fast_approx(x) nn.glu(x) nn.sigmoid(x) nn.silu(x)
    nn.Conv1d.__call__(x) nn.Conv2d.__call__(x) nn.Conv3d.__call__(x)
    nn.ConvTranspose1d.__call__(x) nn.ConvTranspose2d.__call__(x) nn.ConvTranspose3d.__call__(x)
    nn.Embedding.__call__(x) nn.GELU.__call__(x) nn.GLU.__call__(x) nn.GRU.__call__(x)
    nn.InstanceNorm.__call__(x) nn.LSTM.__call__(x) nn.LayerNorm.__call__(x)
    nn.MultiHeadAttention.__call__(queries,keys,values) nn.QuantizedAllToShardedLinear.__call__(x)
    nn.QuantizedEmbedding.__call__(x) nn.QuantizedLinear.__call__(x)
    nn.QuantizedShardedToAllLinear.__call__(x) nn.RMSNorm.__call__(x) nn.RoPE.__call__(x)
    nn.Transformer.__call__(src,tgt) nn.TransformerDecoder.__call__(x,memory)
    nn.TransformerDecoderLayer.__call__(x,memory)
    nn.TransformerEncoder.__call__(x) nn.TransformerEncoderLayer.__call__(x)
"""

# Special methods of arrays, by the function that does the same (`__radd__`, `__iadd__` too).
OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "pos": "positive",
    "abs": "abs",
    "invert": "bitwise_invert",
}

_SUM = "bool:int32,int8:int32,int16:int32,uint8:uint32,uint16:uint32"
_REAL = "complex64:float32"

# Dtype of the result by rule: the rule, the parameters it is about in brackets where these are not
# all array parameters, and after a comma the exceptions, as input:output.
DTYPE_RULES: dict[str, str] = {
    "same": """
        core.sign core.positive core.negative core.trunc core.square core.stop_gradient core.floor
        core.ceil core.matrix_transpose core.conj core.bitwise_invert core.contiguous core.round
        core.nan_to_num core.flatten core.squeeze core.flip core.min core.max core.minmax core.sort
        core.cummax core.cummin core.diff core.diag core.diagonal core.unstack core.tril core.triu
        core.transpose core.reshape core.unflatten core.expand_dims core.take core.take_along_axis
        core.put_along_axis core.moveaxis core.swapaxes core.split core.partition core.topk
        core.broadcast_to core.repeat core.pad core.as_strided core.tile core.roll core.slice
        core.slice_update core.depends core.unique core.fast.rope
        core.fft.fftshift core.fft.ifftshift
        core.distributed.all_sum core.distributed.all_max core.distributed.all_min
        core.distributed.all_gather core.distributed.sum_scatter core.distributed.send
        core.distributed.recv_like
        core.linalg.qr core.linalg.inv core.linalg.tri_inv core.linalg.cholesky
        core.linalg.cholesky_inv core.linalg.pinv
        core.array.T core.array.mT core.array.__copy__ core.array.__deepcopy__
        core.array.__getitem__
        nn.Identity.__call__ nn.ALiBi.__call__ nn.MaxPool1d.__call__ nn.MaxPool2d.__call__
        nn.MaxPool3d.__call__ nn.RoPE.__call__
    """,
    "each": """
        core.atleast_1d core.atleast_2d core.atleast_3d core.broadcast_arrays core.meshgrid
    """,
    "param:dtype=same": "core.cumprod core.full_like core.ones_like core.zeros_like",
    "param:dtype=same,bool:int32": "core.cumsum",
    f"same,{_SUM}": "core.sum core.prod",
    f"param:dtype=same,{_SUM}": "core.trace",
    f"same,{_REAL}": "core.abs core.real core.imag core.linalg.eigvalsh",
    "same,complex64:unknown": "core.linalg.eigh core.linalg.svd",
    "same,bool:int32": "nn.hard_shrink nn.relu nn.relu2 nn.HardShrink.__call__",
    "uint32;same;same": "core.linalg.lu",
    "same;uint32": "core.linalg.lu_factor",
    "promote": """
        core.add core.subtract core.multiply core.divmod core.floor_divide core.remainder
        core.power core.kron core.minimum core.maximum core.outer core.matmul core.inner
        core.tensordot core.concatenate core.stack core.clip core.convolve core.conv1d core.conv2d
        core.conv3d core.conv_transpose1d core.conv_transpose2d core.conv_transpose3d
        core.conv_general core.addmm core.einsum core.bitwise_and core.bitwise_or core.bitwise_xor
        core.fast.layer_norm core.fast.rms_norm core.linalg.cross
    """,
    "promote(a,b)": "core.gather_mm core.segmented_mm core.block_masked_mm",
    "promote(x,scales)": "core.gather_qmm core.quantized_matmul",
    "promote(x,y)": "core.where",
    "promote(q,k,v)": "core.fast.scaled_dot_product_attention",
    "promote,bool:uint8": "core.left_shift core.right_shift",
    "promote,bool:int32": "nn.prelu",
    f"promote,{_SUM}": "core.vecdot",
    "float": """
        core.sqrt core.rsqrt core.reciprocal core.exp core.expm1 core.erf core.erfinv core.sin
        core.cos core.tan core.arcsin core.arccos core.arctan core.sinh core.cosh core.tanh
        core.arcsinh core.arccosh core.arctanh core.degrees core.radians core.log core.log2
        core.log10 core.log1p core.sigmoid core.mean core.median core.logcumsumexp core.logsumexp
        core.divide core.logaddexp core.arctan2
        core.linalg.det core.linalg.slogdet core.linalg.solve core.linalg.solve_triangular
        nn.celu nn.elu nn.gelu nn.gelu_approx nn.gelu_fast_approx nn.glu nn.hard_tanh nn.hardswish
        nn.leaky_relu nn.log_sigmoid nn.log_softmax nn.mish nn.relu6 nn.selu nn.sigmoid nn.silu
        nn.softmax nn.softmin nn.softplus nn.softshrink nn.softsign nn.tanh
        nn.AvgPool1d.__call__ nn.AvgPool2d.__call__ nn.AvgPool3d.__call__ nn.CELU.__call__
        nn.Dropout.__call__ nn.Dropout2d.__call__ nn.Dropout3d.__call__ nn.ELU.__call__
        nn.GELU.__call__ nn.GLU.__call__ nn.LeakyReLU.__call__ nn.Softshrink.__call__
        nn.losses.cross_entropy nn.losses.log_cosh_loss nn.losses.mse_loss
    """,
    f"float,{_REAL}": """
        core.hadamard_transform core.linalg.norm core.std core.var
        nn.losses.huber_loss nn.losses.l1_loss nn.losses.smooth_l1_loss nn.losses.triplet_loss
    """,
    # An integer softmax is float32 along the last axis, and int32 zeros along any other.
    "float,integer:unknown": "core.softmax",
    # Without reduction these keep integers, which no one trains on.
    "promote,integer:unknown": """
        nn.losses.hinge_loss nn.losses.margin_ranking_loss
    """,
    "same,integer:unknown": "nn.losses.nll_loss",
    "bool": """
        core.all core.allclose core.any core.array_equal core.equal core.greater
        core.greater_equal core.isclose core.isfinite core.isinf core.isnan core.isneginf
        core.isposinf core.less core.less_equal core.logical_and core.logical_not core.logical_or
        core.logical_xor core.not_equal core.random.bernoulli
    """,
    "int32": "core.count_nonzero nn.step nn.Step.__call__",
    "uint8": "core.to_fp8",
    "uint32": """
        core.argmax core.argmin core.argpartition core.argsort core.searchsorted
        core.random.categorical core.random.key core.random.split
    """,
    "uint64": "optimizers.Optimizer.step",
    "float32": """
        core.bartlett core.hanning core.hamming core.blackman core.fast.cross_entropy
        core.fft.irfft core.fft.irfft2 core.fft.irfftn core.fft.istft core.fft.fftfreq
        core.fft.rfftfreq
    """,
    "complex64": """
        core.linalg.eig core.linalg.eigvals core.fft.fft core.fft.ifft core.fft.fft2
        core.fft.ifft2 core.fft.fftn core.fft.ifftn core.fft.rfft core.fft.rfft2 core.fft.rfftn
        core.fft.stft
    """,
    "param:dtype=float32": """
        core.eye core.identity core.linspace core.ones core.tri core.zeros
        core.random.gumbel core.random.laplace core.random.normal
        core.random.truncated_normal core.random.uniform
        nn.ALiBi.create_alibi_matrix nn.ALiBi.create_alibi_slope
        nn.MultiHeadAttention.create_additive_causal_mask
    """,
    "param:dtype=int32": "core.random.randint",
    "param:dtype=bfloat16": "core.from_fp8",
    "param:dtype=promote": "core.arange",
    "param:dtype=from_value(vals)": "core.full",
    "param:dtype=from_value(val)": "core.array",
    "param:dtype=from_value(a)": "core.asarray",
    "param:dtype=unknown": "core.astype core.dequantize core.distributed.recv core.view",
}


TABLE = Path(mlx_api.__file__).with_name("table.json")
_MARKERS = {"variadic": "*", "keywords": "**"}

Row = dict[str, object]


class GenerationError(Exception):
    """A correction does not fit the MLX that was read, or no MLX was found."""


def build_table(root: Path, version: str) -> dict[str, Row]:
    """All rows by qualified name, from the MLX package at `root`; `version` goes into the table."""
    sources = read_sources(root)
    sources.aliases.update(corrections.ALIASES)
    for alias in corrections.ALIASES:
        del sources.entries[alias]
    extra = _corrected(sources)
    expects = _correct_params(sources.entries)
    rules = _dtype_rules(sources.entries)
    elementwise = _elementwise(sources.entries)
    sync = {f"mlx.{name}" for name in SYNC.split()}
    real_only = _real_only(sources.entries)
    _require_known(sources.entries, {*sync, *elementwise, *rules, *real_only})
    rows: dict[str, Row] = {"mlx": {"kind": "module", "version": version}}
    for name, entry in sources.entries.items():
        row = _row(entry, expects.get(name, False))
        row.update(extra.get(name, {}))
        call = sources.entries.get(f"{name}.__call__")
        if entry.kind == "class" and call:
            row["call_returns"] = str(call.returns)
        if name in rules and _gives_arrays(entry.returns):
            row.update(_dtype_fields(rules[name]))
        if name in real_only:
            row["real_only"] = real_only[name]
        if name in sync:
            row["sync"] = True
        if name in elementwise:
            row["elementwise"] = True
        if name in sources.exports:
            row["exports"] = _grouped(sources.exports[name])
        rows[name] = row
    rows.update({name: {"alias": target} for name, target in sources.aliases.items()})
    return dict(sorted(rows.items()))


def render(rows: dict[str, Row]) -> str:
    """The table as JSON, one entry a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _corrected(sources: StubSources) -> dict[str, Row]:
    """Put the corrected results into the entries; the further fields they bring, by name."""
    entries = sources.entries
    extra: dict[str, Row] = {}
    for name, correction in _all_corrections(entries):
        if correction.kind:
            params = [
                RawParam(param, Accepts(kinds), False, "positional_only")
                for param, kinds in correction.params
            ]
            entries[name] = RawEntry(correction.kind, params=params)
        if name not in entries:
            raise GenerationError(f"correction of {name}, which this MLX does not have")
        entries[name].returns = parse_result(correction.returns)
        row: Row = {}
        if correction.given:
            row["given"] = {param: returns for param, returns, _ in correction.given}
        if correction.wraps:
            row["wraps"] = correction.wraps
        if correction.call_returns:
            row["call_returns"] = correction.call_returns
        extra[name] = row
    return extra


def _all_corrections(entries: dict[str, RawEntry]) -> Iterator[tuple[str, Correction]]:
    for table in (corrections.LIES, corrections.REFINEMENTS, corrections.GAPS):
        yield from table.items()
    layers = {
        **dict.fromkeys(corrections.ARRAY_LAYERS.split(), "array"),
        **corrections.OTHER_LAYERS,
    }
    for layer, returns in layers.items():
        yield f"mlx.nn.{layer}.__call__", Correction(returns, "")
    for function in corrections.ARRAY_FUNCTIONS.split():
        yield f"mlx.nn.{function}", Correction("array", "")
    for name, returns in corrections.ATTRIBUTES.items():
        yield name, Correction(returns, "", kind="property")
    for name, returns in corrections.MAKERS.items():
        yield name, Correction("callable", "", call_returns=returns)
    for name in list(entries):
        method = corrections.OPTIMIZER_METHODS.get(name.rpartition(".")[2])
        if method and name.startswith("mlx.optimizers."):
            yield name, Correction(method, "")


def _correct_params(entries: dict[str, RawEntry]) -> dict[str, bool]:
    """Correct what parameters take; says of which entries the array parameters take numbers too."""
    for name, entry in entries.items():
        for prefix, known in corrections.PARAMETERS.items():
            if name.startswith(prefix) and name not in corrections.NOT_ARRAYS:
                entry.params = [_typed(param, known) for param in entry.params]
    lenient = {f"mlx.{name}" for name in corrections.NUMBERS_TOO.split()} - set(corrections.ALIASES)
    _require_known(entries, lenient)
    return dict.fromkeys(lenient, True)


def _typed(param: RawParam, known: dict[str, str]) -> RawParam:
    kinds = known.get(param.name)
    if kinds is None or param.accepts.kinds != "any":
        return param
    nullable = param.accepts.nullable or kinds.endswith("?")
    accepts = Accepts(kinds.rstrip("?="), nullable)
    return replace(param, accepts=accepts, has_default=param.has_default or kinds.endswith("="))


def _dtype_rules(entries: dict[str, RawEntry]) -> dict[str, str]:
    """Dtype rules by qualified name: those given, and those of methods and layers that follow."""
    rules: dict[str, str] = {}
    for rule, names in DTYPE_RULES.items():
        rules.update({f"mlx.{name}": rule for name in names.split()})
    for name, entry in entries.items():
        if name in rules:
            continue
        if rule := rules.get(_same_function(name, entry), ""):
            has_dtype = any(param.name == "dtype" for param in entry.params)
            rules[name] = rule if has_dtype else rule.removeprefix("param:dtype=")
    return rules


def _elementwise(entries: dict[str, RawEntry]) -> set[str]:
    names = {f"mlx.{name}" for name in ELEMENTWISE.split()}
    methods = {name for name, entry in entries.items() if _same_function(name, entry) in names}
    return names | methods


def _real_only(entries: dict[str, RawEntry]) -> dict[str, list[str]]:
    """The parameters that take no complex array: those given, and those of methods and layers."""
    found = {}
    for item in REAL_ONLY.split():
        name, _, params = item.partition("(")
        found[f"mlx.{name}"] = params.rstrip(")").split(",")
    _require_known(entries, set(found))
    for name, entry in entries.items():
        function = _same_function(name, entry)
        if function in found and name not in found:
            own = [param.name for param in entry.params]
            own = own if entry.like else ["self", *own]
            order = [param.name for param in entries[function].params]
            found[name] = [own[order.index(param)] for param in found[function]]
    return found


def _same_function(name: str, entry: RawEntry) -> str:
    """The function of `mlx.core` or `mlx.nn` that a method of arrays, or a layer, applies."""
    owner, _, member = name.rpartition(".")
    if entry.like:
        like = entry.like
        return f"mlx.core.{like[3:]}" if like.startswith("mx.") else f"mlx.nn.{like}"
    if owner != "mlx.core.array":
        return ""
    if not member.startswith("__"):
        return f"mlx.core.{member}"
    operator = member.strip("_")
    for candidate in (operator, operator[1:] if operator[:1] in {"i", "r"} else operator):
        if candidate in OPERATORS:
            return f"mlx.core.{OPERATORS[candidate]}"
    return ""


def _dtype_fields(text: str) -> Row:
    """The fields of a rule as `behaviour` writes it: `promote(x,y),bool:int32`."""
    match = re.fullmatch(r"([\w:;=]+?)(?:\(([\w,]+)\))?((?:,\w+:\w+)*)", text)
    if match is None:
        raise GenerationError(f"not a dtype rule: {text}")
    rule, sources, exceptions = match.groups()
    row: Row = {"dtype": rule}
    if sources:
        row["dtype_from"] = sources.split(",")
    if exceptions:
        row["dtype_exceptions"] = dict(item.split(":") for item in exceptions[1:].split(","))
    return row


def _gives_arrays(returns: Result) -> bool:
    return returns.head in {"array", "same"} or any(_gives_arrays(item) for item in returns.items)


def _row(entry: RawEntry, numbers_too: bool) -> Row:
    row: Row = {"kind": entry.kind}
    if entry.kind != "module":
        row["returns"] = str(entry.returns)
    if entry.params:
        row["params"] = ",".join(_written_params(entry.params, numbers_too))
    if entry.bases:
        row["bases"] = entry.bases
    return row


def _written_params(params: list[RawParam], numbers_too: bool) -> Iterator[str]:
    """Parameters in Python's own notation: `a:array,/,axis:ints?=,*,stream:stream?=`."""
    previous = ""
    for param in params:
        if previous == "positional_only" != param.kind:
            yield "/"
        if param.kind == "keyword_only" and previous not in {"keyword_only", "variadic"}:
            yield "*"
        previous = param.kind
        marks = "*" if numbers_too and "array" in param.accepts.kinds.split("|") else ""
        marks += "?" if param.accepts.nullable else ""
        default = "=" if param.has_default and param.kind not in _MARKERS else ""
        name = _MARKERS.get(param.kind, "") + param.name
        yield f"{name}:{param.accepts.kinds}{marks}{default}"
    if previous == "positional_only":
        yield "/"


def _grouped(exports: dict[str, str]) -> dict[str, str]:
    """Names by the module they live in; `as` where the name differs: `core as mx`."""
    groups: dict[str, list[str]] = {}
    for name, target in sorted(exports.items()):
        module, _, own = target.rpartition(".")
        groups.setdefault(module, []).append(name if name == own else f"{own}={name}")
    return {module: " ".join(names) for module, names in sorted(groups.items())}


def _require_known(entries: dict[str, RawEntry], names: set[str]) -> None:
    if unknown := sorted(names - set(entries)):
        raise GenerationError(f"this MLX does not have {', '.join(unknown)}")


def _installed(path: Path | None) -> tuple[Path, str]:
    """The package's folder and version: at `path`, or where this Python finds MLX."""
    finder = [str(path.parent)] if path else sys.path
    for distribution in importlib.metadata.distributions(name="mlx", path=finder):
        root = Path(str(distribution.locate_file("mlx")))
        if (root / "core" / "__init__.pyi").is_file():
            return root, distribution.version
    raise GenerationError(f"no MLX with stubs found {f'at {path}' if path else 'on sys.path'}")


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if the table is stale.")
@click.option("--mlx", type=click.Path(path_type=Path), help="The mlx package's folder.")
def main(check: bool, mlx: Path | None) -> None:
    """Write the table of MLX's public API, from the installed MLX or the one at --mlx."""
    try:
        root, version = _installed(mlx)
        text = render(build_table(root, version))
    except (GenerationError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if not check:
        TABLE.write_text(text, "utf-8")
        click.echo(f"{TABLE}: {len(text.splitlines()) - 2} names of MLX {version}")
    elif not TABLE.is_file() or TABLE.read_text("utf-8") != text:
        raise click.ClickException(f"{TABLE} is stale: run python -m {__spec__.name}")


if __name__ == "__main__":
    main()
