"""What the tests of the norms of heads share."""

from __future__ import annotations

import pytest

from tests.xlstm_kernels.norm.inputs import EXTRAS, NORMS, extra_shapes


@pytest.fixture(params=NORMS)
def norm(request):
    return request.param


@pytest.fixture
def arrays(draw):
    """Makes x and the extras that are asked for."""

    def make(shape, dtype, names=EXTRAS, *, extras_dtype=None):
        shapes = extra_shapes(shape)
        extras = {name: draw(shapes[name], extras_dtype or dtype) for name in names}
        return draw(shape, dtype), extras

    return make
