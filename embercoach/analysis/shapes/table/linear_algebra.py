"""``mx.linalg``: decompositions and norms, of the last two axes."""

from __future__ import annotations

from embercoach.analysis.shapes.arrays import (
    ArrayShape,
    DType,
    ShapedArray,
    floating,
    promote,
    unknown_shape,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, integers_of
from embercoach.analysis.shapes.size_integers import Integer, least
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import array_argument

#: What decompositions take; others are the same with complex64.
REAL = ("float32", "float64")
COMPLEX = (*REAL, "complex64")


def matrices(
    requirements: Requirements, a: object, dtypes: tuple[str, ...] = REAL
) -> tuple[ShapedArray, ArrayShape, Integer, Integer]:
    """Return the array of matrices, its axes ahead of them, their rows and columns."""
    array = array_argument(requirements, a)
    if isinstance(array.dtype, str) and array.dtype not in dtypes:
        requirements.fail(f"the dtype is {array.dtype}, not {' or '.join(dtypes)}")
    requirements.least_rank(array, 2, f"{array.shape} has fewer than 2 axes")
    shape = array.shape
    return array, without_last(shape, 2), shape.size(-2), shape.size(-1)


def square(
    requirements: Requirements, a: object, dtypes: tuple[str, ...] = REAL
) -> tuple[ShapedArray, ArrayShape, Integer]:
    """Return the array of square matrices, its axes ahead of them, and their size."""
    array, batch, rows, columns = matrices(requirements, a, dtypes)
    size = requirements.equal(rows, columns, f"the matrices of {array.shape} are not square")
    return array, batch, size


@transfer("linalg.qr")
def qr(requirements: Requirements, a: object) -> object:
    """``mx.linalg.qr``."""
    array, batch, rows, columns = matrices(requirements, a)
    inner = least((rows, columns))
    return tuple(
        ShapedArray(with_last(batch, *sizes), array.dtype)
        for sizes in ((rows, inner), (inner, columns))
    )


@transfer("linalg.svd")
def svd(requirements: Requirements, a: object, compute_uv: object = True) -> object:
    """``mx.linalg.svd``: the vectors, unless requested otherwise, are square matrices."""
    array, batch, rows, columns = matrices(requirements, a, COMPLEX)
    values = ShapedArray(with_last(batch, least((rows, columns))), _real(array.dtype))
    if compute_uv is False:
        return values
    left = ShapedArray(with_last(batch, rows, rows), array.dtype)
    return left, values, ShapedArray(with_last(batch, columns, columns), array.dtype)


def _real(dtype: DType) -> DType:
    """Return the dtype of singular and eigenvalues that are real."""
    if isinstance(dtype, str):
        return "float32" if dtype == "complex64" else dtype
    return None


@transfer("linalg.inv")
def inv(requirements: Requirements, a: object) -> object:
    """``mx.linalg.inv``."""
    return triangular(requirements, a)


@transfer("linalg.tri_inv", "linalg.cholesky", "linalg.cholesky_inv")
def triangular(requirements: Requirements, a: object, upper: object = False) -> object:
    """``mx.linalg.cholesky`` and the like: square matrices of the same shape."""
    array, batch, size = square(requirements, a)
    return ShapedArray(with_last(batch, size, size), array.dtype)


@transfer("linalg.pinv")
def pinv(requirements: Requirements, a: object) -> object:
    """``mx.linalg.pinv``: the shape of the transposed matrices."""
    array, batch, rows, columns = matrices(requirements, a)
    return ShapedArray(with_last(batch, columns, rows), array.dtype)


@transfer("linalg.eig")
def eig(requirements: Requirements, a: object) -> object:
    """``mx.linalg.eig``: complex values and vectors."""
    _, batch, size = square(requirements, a, COMPLEX)
    values = ShapedArray(with_last(batch, size), "complex64")
    return values, ShapedArray(with_last(batch, size, size), "complex64")


def values_alone(found: object) -> object:
    """Return the values, without the vectors."""
    return found[0] if isinstance(found, tuple) else found


@transfer("linalg.eigvals")
def eigvals(requirements: Requirements, a: object) -> object:
    """``mx.linalg.eigvals``."""
    return values_alone(eig(requirements, a))


@transfer("linalg.eigh")
def eigh(
    requirements: Requirements,
    a: object,
    UPLO: object = "L",
) -> object:
    """``mx.linalg.eigh``: real values, and vectors."""
    array, batch, size = square(requirements, a, COMPLEX)
    values = ShapedArray(with_last(batch, size), _real(array.dtype))
    return values, ShapedArray(with_last(batch, size, size), array.dtype)


@transfer("linalg.eigvalsh")
def eigvalsh(
    requirements: Requirements,
    a: object,
    UPLO: object = "L",
) -> object:
    """``mx.linalg.eigvalsh``."""
    return values_alone(eigh(requirements, a))


@transfer("linalg.lu")
def lu(requirements: Requirements, a: object) -> object:
    """``mx.linalg.lu``: row indices, and both triangles."""
    array, batch, rows, columns = matrices(requirements, a)
    inner = least((rows, columns))
    return (
        ShapedArray(with_last(batch, rows), "uint32"),
        ShapedArray(with_last(batch, rows, inner), array.dtype),
        ShapedArray(with_last(batch, inner, columns), array.dtype),
    )


@transfer("linalg.lu_factor")
def lu_factor(requirements: Requirements, a: object) -> object:
    """``mx.linalg.lu_factor``: both triangles in one matrix, and pivots."""
    array, batch, rows, columns = matrices(requirements, a)
    pivots = ShapedArray(with_last(batch, least((rows, columns))), "uint32")
    return ShapedArray(with_last(batch, rows, columns), array.dtype), pivots


@transfer("linalg.det")
def det(requirements: Requirements, a: object) -> object:
    """``mx.linalg.det``: one number for each matrix."""
    array = array_argument(requirements, a)
    requirements.least_rank(array, 2, f"{array.shape} has fewer than 2 axes")
    reason = f"the matrices of {array.shape} are not square"
    size = requirements.equal(array.shape.size(-2), array.shape.size(-1), reason)
    is_large = type(size) is int and size > 3
    if array.dtype == "complex64" or (is_large and array.dtype in ("float16", "bfloat16")):
        requirements.fail(f"the dtype is {array.dtype}, for matrices of {array.shape}")
    return ShapedArray(without_last(array.shape, 2), floating(array.dtype))


@transfer("linalg.slogdet")
def slogdet(requirements: Requirements, a: object) -> object:
    """``mx.linalg.slogdet``: a sign and a logarithm for each matrix."""
    found = det(requirements, a)
    return found, found


@transfer("linalg.solve")
def solve(requirements: Requirements, a: object, b: object) -> object:
    """``mx.linalg.solve``: with a vector, or with matrices of as many axes."""
    return _solved(requirements, a, b, is_gathered=True)


@transfer("linalg.solve_triangular")
def solve_triangular(
    requirements: Requirements, a: object, b: object, *, upper: object = False
) -> object:
    """``mx.linalg.solve_triangular``."""
    return _solved(requirements, a, b, is_gathered=False)


def _solved(requirements: Requirements, a: object, b: object, *, is_gathered: bool) -> object:
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = promote(left.dtype, right.dtype)
    for given in (dtype, left.dtype):
        if isinstance(given, str) and given not in REAL:
            requirements.fail(f"the dtype is {given}, not float32")
    requirements.least_rank(left, 2, f"{left.shape} has fewer than 2 axes")
    requirements.least_rank(right, 1, f"{right.shape} has no axes")
    shape, other = left.shape, right.shape
    reason = f"the matrices of {shape} are not square"
    size = requirements.equal(shape.size(-2), shape.size(-1), reason)
    if shape.rank is None or other.rank is None:
        return ShapedArray(unknown_shape(), dtype)
    shown = f"the matrices are {shape}, and the right side is {other}"
    if other.rank == 1:
        requirements.equal(size, other.head[0], shown)
        if is_gathered and shape.rank > 2:
            requirements.fail(shown)
        return ShapedArray(with_last(without_last(shape, 2), size), dtype)
    requirements.equal(size, other.size(-2), shown)
    if is_gathered and shape.rank != other.rank:
        requirements.fail(shown)
    batch = requirements.broadcast(without_last(shape, 2), without_last(other, 2))
    return ShapedArray(with_last(batch, size, other.size(-1)), dtype)


@transfer("linalg.cross")
def cross(requirements: Requirements, a: object, b: object, axis: object = -1) -> object:
    """``mx.linalg.cross``: along an axis of 2 or 3 elements."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = promote(left.dtype, right.dtype)
    shapes, found = [], set()
    for array in (left, right):
        at = requirements.axis(axis, array.shape)
        if at is None or array.shape.rank is None:
            return ShapedArray(unknown_shape(), dtype)
        sizes = list(array.shape.head)
        if type(sizes[at]) is int and sizes[at] not in (2, 3):
            requirements.fail(f"axis {axis} of {array.shape} has not 2 or 3 elements")
        found.add(sizes[at])
        sizes[at] = 3
        shapes.append(ArrayShape(tuple(sizes)))
    if found == {2, 3} and dtype == "bool":
        requirements.fail("the arrays are bool, which has no sign")
    return ShapedArray(requirements.broadcast(*shapes), dtype)


@transfer("linalg.norm")
def norm(
    requirements: Requirements,
    a: object,
    ord: object = None,  # noqa: A002
    axis: object = None,
    keepdims: object = False,
) -> object:
    """``mx.linalg.norm``: of vectors along one axis, of matrices along two."""
    array = array_argument(requirements, a)
    dtype = floating(array.dtype) if isinstance(array.dtype, str) else None
    if dtype == "complex64":
        dtype = "float32" if ord is None else None
    if axis is None:
        return _whole_norm(requirements, array, ord, keepdims, dtype)
    axes = integers_of(axis)
    if axes is None:
        return ShapedArray(unknown_shape(), dtype)
    _check_order(requirements, ord, len(axes))
    if len(axes) > 2 or (ord is not None and not axes):
        requirements.fail(f"a norm of {len(axes)} axes is not defined")
    found = [requirements.axis(one, array.shape) for one in axes]
    if array.shape.rank is None or None in found:
        return ShapedArray(unknown_shape(), dtype)
    if len(set(found)) < len(found):
        requirements.fail(f"the axes {axes} name one twice")
    sizes = array.shape.head
    if keepdims is True:
        kept: tuple[Integer, ...] = tuple(1 if at in found else n for at, n in enumerate(sizes))
    else:
        kept = tuple(n for at, n in enumerate(sizes) if at not in found)
    if not isinstance(keepdims, bool):
        return ShapedArray(unknown_shape(), dtype)
    return ShapedArray(ArrayShape(kept), dtype)


def _whole_norm(
    requirements: Requirements, array: ShapedArray, order: object, keepdims: object, dtype: DType
) -> object:
    """Return the norm of all elements."""
    rank = array.shape.rank
    if order is not None and rank is not None:
        if rank not in (1, 2):
            requirements.fail(f"{array.shape} has not 1 or 2 axes, as a norm of an order needs")
        _check_order(requirements, order, rank)
    if keepdims is False:
        return ShapedArray(ArrayShape(), dtype)
    shape = unknown_shape() if rank is None or keepdims is not True else ArrayShape((1,) * rank)
    return ShapedArray(shape, dtype)


def _check_order(requirements: Requirements, order: object, axes: int) -> None:
    """Require an order that exists for so many axes."""
    if isinstance(order, str):
        if axes != 2:
            requirements.fail(f"the order {order!r} is for matrices, and {axes} axes are given")
        if order not in ("fro", "f", "nuc"):
            requirements.fail(f"the order is {order!r}")
        return
    is_number = type(order) in (int, float)
    if axes == 2 and is_number and order not in (1, -1, 2, -2, float("inf"), float("-inf")):
        requirements.fail(f"the order of a matrix norm is {order}")
