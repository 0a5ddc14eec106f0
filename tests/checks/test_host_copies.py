"""HOST-COPY: tensors that take the way over the host in PyTorch extensions."""

from __future__ import annotations

import pytest

from embercoach.checks import check_objective_c

TORCH = "#include <torch/extension.h>\n"
COPY_IN, COPY_OUT, WAIT = "HOST-COPY-001", "HOST-COPY-002", "HOST-COPY-003"
RUN = """
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    [encoder dispatchThreads:grid threadsPerThreadgroup:group];
    [encoder endEncoding];
    [commands commit];
    [commands waitUntilCompleted];
"""


def codes(body: str, head: str = TORCH) -> list[str]:
    found = check_objective_c(f"{head}void f(torch::Tensor x, id<MTLBuffer> b) {{\n{body}\n}}\n")
    return [finding.code for finding in found.findings]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("memcpy([b contents], x.data_ptr(), n);", [COPY_IN]),
        ("std::memcpy(b.contents, x.data_ptr(), n);", [COPY_IN]),
        ("void* p = [b contents]; memcpy(x.data_ptr<float>(), p, n);", [COPY_OUT]),
        ("auto v = torch::from_blob([b contents], s); g(v.clone());", [COPY_OUT]),
        ("g(torch::from_blob([b contents], s).to(x.device()));", [COPY_OUT]),
        (RUN, [WAIT]),
        # Near misses
        ("[d newBufferWithBytes:values.data() length:n options:0];", []),
        ("memcpy(x.data_ptr(), y.data_ptr(), n);", []),
        ("memcpy(&count, [b contents], 4);", []),
        ("auto v = torch::from_blob([b contents], s); g(v);", []),
        ("[commands waitUntilCompleted];", []),
        (RUN + "int* found = (int*)[b contents];", []),
        (RUN + "int* found = (int*)b.contents;", []),
    ],
)
def test_host_copies(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


@pytest.mark.parametrize(
    ("start", "is_told"),
    [
        ("auto c = x.cpu();", True),
        ("auto c = x.to(torch::kCPU).contiguous();", True),
        ("auto c = x.to(torch::TensorOptions().device(at::kCPU));", True),
    ],
)
def test_the_way_over_the_cpu_is_told(start: str, is_told: bool) -> None:
    found = check_objective_c(
        f"{TORCH}void f(torch::Tensor x) {{ {start} [d newBufferWithBytes:c.data_ptr()]; }}"
    )
    (finding,) = found.findings
    assert ("after `.cpu()`" in finding.message) == is_told
    assert "tensor `c`" in finding.message


def test_variables_are_those_of_the_function() -> None:
    other = f"{TORCH}void g(torch::Tensor y) {{ auto p = y.data_ptr(); }}\n"
    assert codes("[d newBufferWithBytes:p length:n];", other) == []


def test_host_code_and_its_kernel_are_both_read() -> None:
    program = (
        f'{TORCH}static const char* SOURCE = R"(\n'
        "kernel int f(device int* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
        "  return x[i];\n"
        '}\n)";\n'
        "void f(torch::Tensor x) { [d newBufferWithBytes:x.data_ptr() length:n]; }\n"
    )
    found = check_objective_c(program).findings
    assert sorted((f.code, f.line, f.column) for f in found) == [
        (COPY_IN, 7, 27),
        ("KERNEL-UNIT-003", 3, 12),
    ]
