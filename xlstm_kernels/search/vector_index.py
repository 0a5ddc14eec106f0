"""The base of all indexes: the ids of vectors, their removal, and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import ClassVar

import mlx.core as mx

from xlstm_kernels.arguments import host_integer, require_kind, require_shape
from xlstm_kernels.search import storage
from xlstm_kernels.search.metric import Metric, normalized

_ID_END = 2**63


class VectorIndex(ABC):
    """Vectors in the order in which they were added, with an id each.

    Ids are the numbers of that order, int32, unless the caller gives his own or removes vectors:
    then they are int64. Those of vectors that stay never change.

    Attributes:
        dimension: D of all vectors.
        metric: L2, INNER_PRODUCT or COSINE.
    """

    #: The name of this kind of index in a file.
    kind: ClassVar[str]

    def __init__(self, dimension: int, metric: Metric | str) -> None:
        """Make an index without vectors."""
        self.dimension = host_integer(self._name, "dimension", dimension, least=1)
        self.metric = Metric(metric)
        # -1, and then the ids in the order of vectors; None while these are 0 to N - 1.
        self._labels: list[mx.array] | None = None
        self._next_id = 0  # where there are labels

    @property
    @abstractmethod
    def ntotal(self) -> int:
        """The number of vectors."""

    def add(self, vectors: mx.array) -> None:
        """Append vectors (N, D), float32; their ids follow the greatest id so far.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape, an index that is not trained, or ids beyond int64.
        """
        given = self._accepted("add", "vectors", vectors)
        if self._next_id + given.shape[0] > _ID_END:
            raise ValueError(f"{self._name}.add: no greater ids are left; use add_with_ids()")
        self._append(given)
        if self._labels is not None:
            first = mx.array(self._next_id, dtype=mx.int64)
            self._labels.append(mx.arange(given.shape[0], dtype=mx.int64) + first)
            self._next_id += given.shape[0]

    def add_with_ids(self, vectors: mx.array, ids: mx.array) -> None:
        """Append vectors (N, D), float32, with ids (N) of any integer dtype; evaluates the ids.

        An id may occur more than once, as in faiss.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape, a negative id, or an index that is not trained.
        """
        given = self._accepted("add_with_ids", "vectors", vectors)
        labels = self._integers("add_with_ids", ids)
        require_shape(f"{self._name}.add_with_ids", "ids", labels, given.shape[:1], "one a vector")
        numbers = _on_host(labels)
        if min(numbers, default=0) < 0:
            raise ValueError(
                f"{self._name}.add_with_ids: ids must not be negative, got {min(numbers)}"
            )
        earlier = self._labels or [self._id_table()]
        self._append(given)
        self._labels = [*earlier, labels]
        self._next_id = max([self._next_id - 1, *numbers]) + 1

    def remove_ids(self, ids: mx.array) -> int:
        """Remove the vectors of ids (R), any integer dtype; evaluates the ids, and what stays.

        Ids that are not in the index are ignored. The other vectors keep theirs.

        Returns:
            The number of vectors that were removed.

        Raises:
            TypeError: for another dtype.
            ValueError: for another shape.
        """
        gone = set(_on_host(self._integers("remove_ids", ids)))
        table = self._id_table()
        present = _on_host(table[1:])
        stay = [place for place, label in enumerate(present) if label not in gone]
        count = len(present) - len(stay)
        if count:
            places = mx.array(stay, dtype=mx.int32)
            self._keep(places)
            self._labels = [table[:1], mx.take(table[1:], places)]
        return count

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to a safetensors file, which `xlstm_kernels.search.load` reads.

        Raises:
            TypeError: for an nprobe or max_codes that is not an integer.
            ValueError: for one that is too small or great, or an index that is not trained.
        """
        arrays, settings = self._contents()
        if self._labels is not None:
            arrays["ids"] = self._id_table()[1:]
            settings["next_id"] = self._next_id
        storage.save(path, self.kind, self.metric, arrays, settings)

    def restore_ids(self, ids: mx.array, next_id: int) -> None:
        """Set the ids (N), int64, of the N vectors, and that of the next one."""
        self._labels = [mx.array([-1], dtype=mx.int64), mx.maximum(ids, mx.zeros_like(ids))]
        self._next_id = next_id

    @property
    def _name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def _append(self, vectors: mx.array) -> None:
        """Add vectors (N, D) after the others."""

    @abstractmethod
    def _keep(self, places: mx.array) -> None:
        """Remove all vectors but those at places (M), int32, ascending; evaluates them."""

    @abstractmethod
    def _contents(self) -> tuple[dict[str, mx.array], dict[str, int]]:
        """The arrays of a file, and the numbers of its metadata."""

    def _accepted(self, method: str, argument: str, vectors: mx.array) -> mx.array:
        """Vectors (N, D), float32; for COSINE of length 1."""
        operator = f"{self._name}.{method}"
        given = require_kind(operator, argument, vectors, mx.float32, "a float32 array")
        if given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(
                f"{operator}: {argument} must have shape (N, {self.dimension}), got {given.shape}"
            )
        return normalized(given) if self.metric is Metric.COSINE else given

    def _integers(self, method: str, ids: object) -> mx.array:
        """Ids (N) as int64."""
        operator = f"{self._name}.{method}"
        given = require_kind(operator, "ids", ids, mx.integer, "an array of integers")
        if given.ndim != 1:
            raise ValueError(f"{operator}: ids must have shape (N,), got {given.shape}")
        return given.astype(mx.int64)

    def _id_table(self) -> mx.array:
        """-1, and then the ids of all vectors, int64."""
        if self._labels is None:
            self._next_id = self.ntotal
            return mx.arange(-1, self.ntotal, dtype=mx.int64)
        if len(self._labels) > 1:
            self._labels = [mx.concatenate(self._labels)]
        return self._labels[0]

    def _identified(self, places: mx.array) -> mx.array:
        """The ids of places, int32, where -1 stays."""
        if self._labels is None:
            return places
        return self._id_table()[places + mx.ones_like(places)]


def _on_host(labels: mx.array) -> list[int]:
    """Return int64 (N) as numbers: which vectors there are decides the shapes of arrays."""
    numbers: list[int] = labels.__array__().tolist()
    return numbers
