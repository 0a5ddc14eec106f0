"""``.metal`` files that are a part of a function: the body of a kernel, which Python reads."""

from __future__ import annotations

import pytest

from embercoach.checks import check_metal
from tests.checks.findings import codes, launched

LOCAL = "uint i = thread_position_in_grid.x;\n"
KERNEL = "kernel void k(device float* y [[buffer(0)]]) { y[0] = 1; }\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOCAL + "constexpr int N = {{N}};\n{ y[i] = N; }\ny[i] = x[i];\n", False),
        (LOCAL + "#if WIDE\nif (i >= 4) { return; }\n#endif\n", False),
        (LOCAL + "y[i] += 1;\ninline void add(int v) { v += 1; }\n", False),
        # Whole files: a macro that declares is not a statement, and a kernel makes it a unit.
        (f"uint i = 3;\nif (i) {{ i = 4; }}\n{KERNEL}", True),
    ],
)
def test_a_part_of_a_function_is_not_a_unit(text: str, expected: bool) -> None:
    found = {finding.code for finding in check_metal(text).findings}
    assert ("KERNEL-MSL-001" in found) is expected
    assert expected or not found


@pytest.mark.parametrize(
    "comment", ["/* note */", "/* a */ /* b */", "/* first \\\n second */", '"/*" /* é */', "// no"]
)
def test_a_comment_does_not_end_a_macro(comment: str) -> None:
    macro = (
        f"#define ADD(o) \\\n {{ float e = x[0]; {comment} \\\n for (;;) {{ e += 1; }} o = e; }}\n"
    )
    assert (
        codes(launched(f"{macro}float energy = 0; ADD(energy); y[0] = energy;"), "KERNEL-MSL") == []
    )
