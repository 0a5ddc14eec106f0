"""Kernels that order memory with fences and atomics, right and wrong."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Case, Out, gives, kernel

_X = np.arange(256, dtype=np.float32)
_BARRIER = "threadgroup_barrier(mem_flags::mem_device);"
_MARK = "  // <- device-race"


def _fence(order: str = "seq_cst", scope: str = "device", memory: str = "device") -> str:
    return (
        f"atomic_thread_fence(mem_flags::mem_{memory}, memory_order_{order}, thread_scope_{scope});"
    )


def _last_group_sums(
    name: str, hand_on: str, take_over: str, before: str = _BARRIER, *, clean: bool = False
) -> Case:
    mark = "" if clean else _MARK
    known = (2 * _X.reshape(4, 64).sum(0), 2 * _X, np.array([4])) if clean else None
    arrays = {"x": _X, "y": Out(64), "partial": Out(256), "done": Out(1, "uint32")}
    return kernel(name, (256, 64), init=0, expected=known)(**arrays)(f"""
        threadgroup bool last;
        uint t = thread_position_in_threadgroup.x, g = threadgroup_position_in_grid.x;
        partial[g * 64 + t] = x[g * 64 + t] * 2;{mark}
        {before}
        if (t == 0) {{
          {hand_on}
          device atomic_uint* tickets = (device atomic_uint*)done;
          uint ticket = atomic_fetch_add_explicit(tickets, 1u, memory_order_relaxed);
          {take_over}
          last = ticket == threadgroups_per_grid.x - 1;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (last) {{
          float sum = 0;
          for (uint i = t; i < 256; i += 64) {{
            sum += partial[i];{mark}
          }}
          y[t] = sum;
        }}
    """)


def _flag(name: str, hand_on: str, take_over: str, *, clean: bool = False) -> Case:
    mark = "" if clean else "  // <- threadgroup-race"
    known = np.concatenate([3 * _X[31::-1], np.zeros(32)])
    return kernel(name, 64)(x=_X, y=gives(known) if clean else Out(64))(f"""
        threadgroup float payload[32];
        threadgroup atomic_uint ready;
        uint t = thread_position_in_threadgroup.x;
        if (t == 0) atomic_store_explicit(&ready, 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = 0;
        if (simdgroup_index_in_threadgroup == 1) {{
          payload[lane] = x[lane] * 3;{mark}
          simdgroup_barrier(mem_flags::mem_threadgroup);
          if (lane == 0) {{
            {hand_on}
            atomic_store_explicit(&ready, 1u, memory_order_relaxed);
          }}
        }} else {{
          while (atomic_load_explicit(&ready, memory_order_relaxed) == 0) {{
          }}
          {take_over}
          y[t] = payload[31 - lane];{mark}
        }}
    """)


def _own_partial(name: str, before: str, after: str, chosen: str) -> Case:
    arrays = {"x": _X, "y": Out(1), "partial": Out(4), "done": Out(1, "uint32")}
    return kernel(name, (4, 1), init=0)(**arrays)(f"""
        uint g = thread_position_in_grid.x, groups = threads_per_grid.x;
        {before}
        {_fence()}
        device atomic_uint* tickets = (device atomic_uint*)done;
        uint ticket = atomic_fetch_add_explicit(tickets, 1u, memory_order_relaxed);
        {after}
        {_fence()}
        if ({chosen} == groups - 1) {{
          float sum = ticket * 0;
          for (uint i = 0; i < groups; ++i) {{
            sum += partial[i];{_MARK}
          }}
          y[0] = sum;
        }}
    """)


_WITHIN = _fence(scope="threadgroup", memory="threadgroup")
_WRITE = f"partial[g] = x[g];{_MARK}"

CLEAN = (
    _last_group_sums("last_group_sums", _fence(), _fence(), clean=True),
    _last_group_sums("every_thread_fences", "", _fence(), f"{_fence()} {_BARRIER}", clean=True),
    _last_group_sums(
        "release_and_acquire_fences", _fence("release"), _fence("acquire"), clean=True
    ),
    _flag("flag_between_simdgroups", _WITHIN, _WITHIN, clean=True),
)

BUGS = (
    _last_group_sums("fence_without_barrier_before", _fence(), _fence(), ""),
    _last_group_sums("no_fence_before_the_ticket", "", _fence()),
    _last_group_sums("no_fence_after_the_ticket", _fence(), ""),
    _last_group_sums("relaxed_fence", _fence("relaxed"), _fence()),
    _last_group_sums("fence_of_threadgroup_scope", _fence(scope="threadgroup"), _fence()),
    _last_group_sums("fence_of_threadgroup_memory", _fence(memory="threadgroup"), _fence()),
    _own_partial("write_after_the_ticket", "", _WRITE, "ticket"),
    _own_partial("ticket_ignored", _WRITE, "", "g"),
    _flag("flag_without_fence_before", "", _WITHIN),
    _flag("flag_without_fence_after", _WITHIN, ""),
)
