"""CACHE: offsets that an update changes, and masks of the list of all caches."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

LAYER = """
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import make_prompt_cache

class Attention(nn.Module):
    def __call__(self, q, k, v, cache=None):
        {body}
"""


def attention(*lines: str) -> str:
    return LAYER.format(body="\n        ".join(lines))


KEPT = "offset = cache.offset if cache is not None else 0"
UPDATE = "k, v = cache.update_and_fetch(k, v)"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((KEPT, UPDATE, "return self.rope(q, offset=offset)"), 1),
        ((KEPT, UPDATE, "return mx.fast.rope(q, 8, offset=offset)"), 1),
        ((KEPT, UPDATE, "return self.rotary_emb(q, offset)"), 1),
        ((KEPT, "q = self.rope(q, offset=offset)", UPDATE, "return q"), 0),
        ((KEPT, UPDATE, "offset = 3", "return self.rope(q, offset=offset)"), 0),
        (("offset = cache.offset + 0", UPDATE, "return self.rope(q, offset=offset)"), 0),
        ((KEPT, UPDATE, "return mx.arange(offset, 8)"), 0),
    ],
)
def test_offsets_that_an_update_changes(lines: tuple[str, ...], found: int) -> None:
    assert codes(attention(*lines), "CACHE") == ["CACHE-002"] * found


DECODER = """
from mlx_lm.models.cache import KVCache

def attend(q, k, v, cache):
    return cache.update_and_fetch(k, v)

class Decoder(nn.Module):
    def __call__(self, h, cache):
        {body}
"""
FIRST = "offset = cache[0].offset if cache else 0"
ZIPPED = "for layer, c in zip(self.layers, cache):"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((FIRST, ZIPPED, "    h = layer(h, c, offset)"), 1),
        ((FIRST, ZIPPED, "    h = layer(h, cache=c, offset=offset)"), 1),
        ((FIRST, "for i, (layer, c) in enumerate(zip(x, cache)):", "    layer(h, c, offset)"), 1),
        ((FIRST, "for i, layer in enumerate(x):", "    h = layer(h, cache[i], offset)"), 1),
        (
            (FIRST, ZIPPED, "    q, k = layer.qk(h, offset)", "    k = c.update_and_fetch(k, k)"),
            1,
        ),
        (("offset = cache[0].offset + 0", ZIPPED, "    h = layer(h, c, offset)"), 0),
        ((FIRST, "offset = mx.array(offset)", ZIPPED, "    h = layer(h, c, offset)"), 0),
        ((FIRST, ZIPPED, "    offset = c.offset", "    h = layer(h, c, offset)"), 0),
        ((FIRST, "pe = self.rope(h, offset)", ZIPPED, "    h = layer(h, c, pe)"), 0),
        ((FIRST, "for layer in self.layers:", "    h = layer(h, offset)"), 0),
        ((ZIPPED, "    offset = cache[0].offset", "    h = layer(h, c, offset)"), 0),
    ],
)
def test_offsets_of_all_layers(lines: tuple[str, ...], found: int) -> None:
    program = DECODER.format(body="\n        ".join(lines))
    assert codes(program, "CACHE") == ["CACHE-002"] * found


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ("create_attention_mask(h, cache)", 1),
        ("create_attention_mask(h, cache=cache)", 1),
        ("create_attention_mask(h, cache[0])", 0),
        ("create_attention_mask(h)", 0),
    ],
)
def test_masks_of_all_caches(mask: str, found: int) -> None:
    program = (
        "from mlx_lm.models.base import create_attention_mask\n"
        "class Decoder(nn.Module):\n"
        "    def __call__(self, h, cache=None):\n"
        f"        mask = {mask}\n"
        "        for layer, c in zip(self.layers, cache):\n"
        "            h = layer(h, mask, c)\n"
        "        return h\n"
    )
    assert codes(program, "CACHE") == ["CACHE-003"] * found


def test_a_function_that_takes_the_list_needs_one_kind_of_cache() -> None:
    program = (
        "def create_attention_mask(h, cache):\n"
        "    return cache[0].offset if cache else None\n"
        "class Decoder(nn.Module):\n"
        "    def __call__(self, h, cache=None):\n"
        "        mask = create_attention_mask(h, cache)\n"
        "        return [layer(h, mask, c) for layer, c in zip(self.layers, cache)]\n"
        "    def make_cache(self):\n"
        "        return [KVCache(), {second}()]\n"
    )
    assert codes(program.format(second="KVCache"), "CACHE") == []
    assert codes(program.format(second="RotatingKVCache"), "CACHE") == ["CACHE-003"]


def test_the_step_of_a_cache_is_no_length() -> None:
    program = (
        "from mlx_lm.models.cache import make_prompt_cache\n"
        "def held(model):\n"
        "    cache = make_prompt_cache(model)\n"
        "    return cache[0].step, cache[0].offset, model.layers[0].step\n"
    )
    assert pointed(program, "CACHE") == [("CACHE-001", "cache[0].step")]


CACHED = """
class Decoder(nn.Module):
    def __call__(self, h: mx.array, {cache}=None):
        L = h.shape[1]
        mask = None
        {body}
        for i, layer in enumerate(self.layers):
            h = layer(h, mask, {cache}[i])
        return h
"""
CAUSAL = "nn.MultiHeadAttention.create_additive_causal_mask"


@pytest.mark.parametrize(
    ("cache", "body", "found"),
    [
        ("cache", f"mask = {CAUSAL}(L).astype(h.dtype)", 1),
        ("kv_cache", "mask = mx.triu(mx.full((L, L), -1e4, h.dtype), k=1)", 1),
        ("cache", "mask = mx.where(mx.tri(L) > 0, 0, -1e4).astype(h.dtype)", 1),
        ("cache", "h = h + self.position_embeddings(mx.arange(L)[None])", 1),
        ("cache", "mask = mx.triu(mx.full((L, 2 * L), -1e4, h.dtype), k=1)", 0),
        ("cache", f"mask = {CAUSAL}(L) if cache is None else None", 0),
        ("cache", f"mask = {CAUSAL}(L); offset = cache[0].offset", 0),
        ("memory", f"mask = {CAUSAL}(L)", 0),
        ("cache", "h = h + self.norm(mx.arange(L))", 0),
    ],
)
def test_masks_and_positions_without_the_cache(cache: str, body: str, found: int) -> None:
    assert len(codes(CACHED.format(cache=cache, body=body), "CACHE-005")) == found
