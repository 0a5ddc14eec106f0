"""The forms of the mLSTM over a sequence, of which tests take each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.sequence import mlstm_sequence

FORMS = {
    "sequence": mlstm_sequence,
    "chunks of 16": partial(mlstm_chunkwise, chunk_size=16),
    "chunks of 40": partial(mlstm_chunkwise, chunk_size=40),
    "chunks of 64": partial(mlstm_chunkwise, chunk_size=64),
    "chunks of any size": mlstm_chunkwise,
}
EVERY_FORM = [
    pytest.param(form, id=name, marks=[pytest.mark.exhaustive] if place > 2 else [])
    for place, (name, form) in enumerate(FORMS.items())
]


@pytest.fixture(params=EVERY_FORM)
def form(request: pytest.FixtureRequest) -> Callable[..., object]:
    return request.param
