"""The advice of a profile as findings in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.simulator.model import KernelFinding
from embercoach.simulator.profile.advice import advise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.simulator.profile.counts import LaunchProfile
    from embercoach.simulator.profile.gpus import Gpu
    from embercoach.simulator.profile.kernel_changes import Advice

_HELP = {
    "uncoalesced-access": "Let neighbouring threads access neighbouring elements, or go through a "
    "tile in threadgroup memory",
    "narrow-access": "Access several elements at once, as `half4` or `float4`, where the address "
    "is a multiple of their size",
    "bank-conflict": "Make the array's rows one element longer",
    "frequent-barriers": "Do more work between barriers, or exchange values inside of a simdgroup "
    "with `simd_shuffle` and `simd_sum`",
    "low-occupancy": "Use smaller tiles, or larger threadgroups that share one",
}


def cost_findings(profile: LaunchProfile, gpu: Gpu) -> Iterator[KernelFinding]:
    """The advice of a profile, as notes."""
    for advice in advise(profile, gpu):
        gain = f"up to {advice.gain or 0:.0%} less time on a full {gpu.name}, as predicted"
        yield KernelFinding(
            kind=advice.kind,
            kernel=profile.kernel,
            part=advice.part,
            line=advice.line,
            thread=None,
            message=advice.message,
            excerpt=_excerpt(profile, advice),
            launched_at=profile.launched_at,
            details=() if advice.gain is None else (gain,),
            help=_HELP[advice.kind],
        )


def _excerpt(profile: LaunchProfile, advice: Advice) -> str:
    lines = profile.source.get(advice.part, ())
    number = advice.line or 0
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
