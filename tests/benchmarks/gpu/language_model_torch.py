"""Speed of transformers' xLSTM, for `language_model`: a separate process, as torch may be missing.

With a GPU the weights are bfloat16 and the kernels those of mlstm_kernels in Triton; without one
the weights are float32 and the kernels PyTorch's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from mlstm_kernels.torch.backend_module import mLSTMBackend
from transformers import AutoModelForCausalLM, xLSTMConfig
from transformers.models.xlstm.modeling_xlstm import xLSTMCache

from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.phases import (
    DECODE,
    PREFILL,
    SIZES,
    THEIRS,
    Call,
    Device,
    Phase,
    Size,
    run,
)

#: Chunkwise kernels, and a chunk that suits each. xLSTM-7B's configuration has the first one.
CHUNKS = {"triton_xl_chunk": 128, "triton_limit_chunk": 64}
TRITON = {"sequence_kernel": "native_sequence__triton", "step_kernel": "triton"}
GPU = Device(
    torch.cuda.synchronize, torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated
)
CPU = Device(lambda: None, lambda: None, lambda: None)


def create(size: Size, device: str) -> Any:
    """Return a model with random weights, created on the device."""
    on_gpu = device == "cuda"
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            xLSTMConfig(**size.shape, **(TRITON if on_gpu else {})),
            dtype=torch.bfloat16 if on_gpu else torch.float32,
        )
    for weight in model.parameters():
        if weight.ndim == 2:  # some start as zeros, with which a GPU may be faster
            torch.nn.init.normal_(weight, std=0.02)
    return model.eval()


def phases(size: Size, model: Any) -> Iterator[Phase]:
    """What may break comes last: graphs, and the kernel at which Triton 3.6 aborts the process."""
    if model.device.type != "cuda":
        yield from prefills(size, model, "")
        yield from decodes(size, model, graph=False)
        return
    yield from prefills(size, model, "triton_limit_chunk")
    yield from decodes(size, model, graph=False)
    yield from decodes(size, model, graph=True)
    yield from prefills(size, model, "triton_xl_chunk")


def prefills(size: Size, model: Any, kernel: str) -> Iterator[Phase]:
    name = f"{THEIRS}, {kernel}" if kernel else THEIRS
    for tokens in size.prompts:
        yield Phase(name, PREFILL, 1, tokens, partial(prefilling, model, tokens, kernel))


def decodes(size: Size, model: Any, *, graph: bool) -> Iterator[Phase]:
    name = f"{THEIRS}, CUDA graph" if graph else THEIRS
    for batch in size.batches:
        start = partial(decoding, model, size, batch, graph)
        yield Phase(name, DECODE, batch, size.steps, start)


def select(model: Any, kernel: str) -> None:
    """Replace the chunkwise kernel of all blocks."""
    for block in model.backbone.blocks:
        layer = block.mlstm_layer
        layer.mlstm_backend = mLSTMBackend(
            replace(
                layer.mlstm_backend.config,
                chunkwise_kernel=f"chunkwise--{kernel}",
                chunk_size=CHUNKS[kernel],
            )
        )


def inputs(model: Any, batch: int, tokens: int) -> tuple[torch.Tensor, xLSTMCache]:
    """Draw tokens, with states before them: float32 as ours, not the dtype of the weights."""
    config, device = model.config, model.device
    drawn = torch.randint(config.vocab_size, (batch, tokens), device=device)
    return drawn, xLSTMCache(config, batch, dtype=torch.float32, device=device)


def prefilling(model: Any, tokens: int, kernel: str) -> Call:
    """Return a call that computes the states after a prompt and the token that follows."""
    if kernel:
        select(model, kernel)
    prompt, _ = inputs(model, 1, tokens)

    @torch.inference_mode()
    def call() -> torch.Tensor:
        _, cache = inputs(model, 1, 1)
        hidden = model.backbone(prompt, cache_params=cache, use_cache=True).last_hidden_state
        return model.lm_head(hidden[:, -1:]).argmax(-1)

    return call


@torch.inference_mode()
def decoding(model: Any, size: Size, batch: int, graph: bool) -> Call:
    """Return a call that decodes greedily; the host reads no token."""
    tokens, cache = inputs(model, batch, 1)

    def step() -> None:
        logits = model(tokens, cache_params=cache, use_cache=True).logits
        tokens.copy_(logits.argmax(-1))

    advance = captured(step) if graph else step

    @torch.inference_mode()
    def call() -> None:
        for _ in range(size.steps):
            advance()

    return call


def captured(step: Callable[[], None]) -> Call:
    """Return the replay of a step's CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles and allocates what a capture must not
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main(name: str, deadline: str) -> None:
    """Print a line for each phase, of the size of this name."""
    on_gpu = torch.cuda.is_available()
    model = create(SIZES[name], "cuda" if on_gpu else "cpu")
    report(f"{THEIRS}: {sum(one.nbytes for one in model.parameters()) / 1e9:.2f} GB of weights")
    run(phases(SIZES[name], model), GPU if on_gpu else CPU, float(deadline))


if __name__ == "__main__":
    main(*sys.argv[1:])
