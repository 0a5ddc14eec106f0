"""The pack in EmberCoach's simulator: its kernels run there, are checked, and do not leak out.

Values, gradients and dtypes are compared where every backend's are, through the fixture `backend`.
"""

from __future__ import annotations

import mlx.core as mx
import pytest

from embercoach.simulator import activate
from xlstm_kernels import executors, rms_norm, soft_cap
from xlstm_kernels.norm.rows import norm_kernel

WITHOUT_METAL = pytest.mark.skipif(mx.metal.is_available(), reason="this MLX has Metal")


def test_every_kernel_of_soft_cap_and_rms_norm_runs_and_is_checked(simulator, draw):
    x, weight = draw((3, 40), mx.float32), draw((40,), mx.float32)
    half = x.astype(mx.bfloat16)
    # With no backend named: kernels are what runs where Metal is, and here it seems to be.
    mx.eval(mx.grad(lambda v: soft_cap(v, 15.0).sum())(x))
    mx.eval(mx.grad(lambda v, w: rms_norm(v, w).sum(), argnums=(0, 1))(half, weight))
    launched = {launch.kernel: launch for launch in simulator.launches}
    assert set(launched) == {
        "xlstm_soft_cap",
        "xlstm_soft_cap_gradient",
        "xlstm_rms_norm_weighted",
        "xlstm_rms_norm_gradient_weighted",
    }
    assert all(launch.accesses > 0 for launch in launched.values())
    assert launched["xlstm_rms_norm_weighted"].shapes["values"] == (1, 3, 1, 40)


@WITHOUT_METAL
def test_no_simulated_kernel_is_left_behind(draw):
    kernel, x = norm_kernel(("weight",)), draw((3, 40), mx.bfloat16)
    before = executors.MetalExecutor().kernel_object(kernel)
    for _ in range(2):
        with activate() as recorder:
            inside = executors.MetalExecutor().kernel_object(kernel)
            assert inside is not before
            assert executors.MetalExecutor().kernel_object(kernel) is inside
            mx.eval(rms_norm(x, mx.ones((40,)), backend="metal"))
        assert [launch.kernel for launch in recorder.launches] == ["xlstm_rms_norm_weighted"]
        assert executors.MetalExecutor().kernel_object(kernel) is before
        assert executors.resolve(None) == executors.NATIVE
        with pytest.raises(RuntimeError, match="this MLX has no Metal"):
            rms_norm(x, mx.ones((40,)), backend="metal")
