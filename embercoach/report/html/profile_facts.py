"""Counts of a launch in words, for the text and the page of ``embercoach simulate --profile``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from embercoach.report.text import size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Kinds of operations on floats, as texts name them.
_FLOPS = {
    "float32": "float32",
    "float16": "half and bfloat",
    "division": "of divisions",
    "special": "of special functions",
    "matrix": "of matrices",
}


def profile_facts(profile: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of a launch's counts; those of what it does not use are left out."""
    if profile["device_bytes_requested"]:
        yield "device memory", _device(profile)
    if profile["threadgroup_bytes"]:
        yield "threadgroup memory", _threadgroup(profile)
    if operations := _operations(profile):
        yield "operations", operations
    if profile["active_lanes"] is not None:
        yield "active lanes", f"{profile['active_lanes']:.3g} of 32, on average"
    if waits := _waits(profile):
        yield "synchronization", waits
    yield "occupancy", _occupancy(profile)
    if profile["flops"] and profile["device_bytes"]:
        yield "roofline", _roofline(profile)


def _device(profile: Mapping[str, Any]) -> str:
    moved = [profile[f"device_bytes_moved{by}"] for by in ("", "_by_64", "_by_128")]
    by_32, by_64, by_128 = map(size_of, moved)
    return (
        f"{size_of(profile['device_bytes'])} in use, {size_of(profile['device_bytes_requested'])} "
        f"requested, {by_32} moved by stretches of 32 bytes, {by_64} by 64, {by_128} by 128"
    )


def _threadgroup(profile: Mapping[str, Any]) -> str:
    requested = size_of(profile["threadgroup_bytes_requested"])
    cycles, conflicts = profile["threadgroup_cycles"], profile["bank_conflict_cycles"]
    return (
        f"{size_of(profile['threadgroup_bytes'])} a threadgroup, {requested} requested in "
        f"{cycles:,} cycles, {conflicts:,} of them by bank conflicts"
    )


def _operations(profile: Mapping[str, Any]) -> str:
    kinds, issued = profile["flops_by_kind"], profile["instructions"]
    found = [f"{kinds[kind]:,} {name}" for kind, name in _FLOPS.items() if kinds.get(kind)]
    facts = [f"{profile['flops']:,} on floats ({', '.join(found)})"] if found else []
    instructions = [
        f"{issued[kind]:,} {name}"
        for kind, name in (("matrix", "matrix"), ("special", "special"))
        if issued.get(kind)
    ]
    return ", ".join([*facts, *(f"{one} instructions" for one in instructions)])


def _waits(profile: Mapping[str, Any]) -> str:
    facts = []
    if profile["barriers"]:
        facts.append(f"{profile['barriers']:,} barriers of simdgroups")
    if profile["atomics"]:
        facts.append(f"{profile['atomics']:,} atomics, {profile['atomics_in_turn']:,} in turn")
    return ", ".join(facts)


def _occupancy(profile: Mapping[str, Any]) -> str:
    occupancy, registers = profile["occupancy"], profile["registers"]
    held = f"{occupancy['simdgroups']} of {occupancy['most']} simdgroups a core"
    estimate = f", about {registers} registers" if registers else ""
    return f"{held}, limited by {occupancy['limit']}{estimate}"


def _roofline(profile: Mapping[str, Any]) -> str:
    intensity = profile["flops"] / profile["device_bytes"]
    roof = min(intensity * profile["gpu_bandwidth"], profile["gpu_flops"] or math.inf)
    speed = profile["flops"] / profile["predicted_seconds"]
    return (
        f"{intensity:.3g} operations for each byte, {speed / 1e9:,.1f} GFLOP/s of the "
        f"{roof / 1e9:,.1f} that the GPU can reach there"
    )


def gpu_facts(profile: Mapping[str, Any]) -> str:
    """The figures of the GPU that predictions use, and their sources."""
    figures = [f"{profile['gpu_bandwidth'] / 1e9:,.0f} GB/s"]
    if profile["gpu_flops"]:
        figures.append(f"{profile['gpu_flops'] / 1e12:,.1f} TFLOP/s")
    return f"{profile['gpu']}: {', '.join(figures)}; from {', '.join(profile['gpu_sources'])}"


def place_of(profile: Mapping[str, Any]) -> str:
    """The line that sets the bound, empty where none does."""
    place = profile["bound_at"]
    if place is None:
        return ""
    part = "" if place["part"] == "body" else f" of the {place['part']}"
    return f"line {place['line']}{part}" if place["line"] else "generated code"
