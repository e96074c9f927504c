"""A persistent (immutable) vector: a modification returns a new one, which shares all but a few nodes with the old one.

Items are leaves of a tree with 32 branches per node, so that get, replace, append and drop-last take O(log32 n), however many
others hold the vector; there is no owner and no lock. A missing branch stands for items that are all None: a vector of a
hundred million of those is as small as an empty one.

Rejected: lists that each change copies, because a loop that sets or pushes every element of a tensor list would take quadratic
time (10,000 elements: 128 ms instead of 8 ms). pyrsistent's vector, because dropping the last item copies the others (10,000
times: 423 ms instead of 21 ms), and items that are all None take memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1


class PersistentVector:
    """An immutable sequence.

    Constant: `length`; `_root`, the tree, None if all items are None; `_shift`, the bits of an index below the root's own.
    """

    __slots__ = ("_root", "_shift", "length")

    def __init__(self, length: int, root: list[Any] | None, shift: int) -> None:
        self.length = length
        self._root = root
        self._shift = shift

    def get(self, index: int) -> Any:
        """Return the item at an index in [0, length)."""
        node = self._root
        for shift in range(self._shift, -1, -_BITS):
            if node is None:
                return None
            node = node[(index >> shift) & _MASK]
        return node

    def replaced(self, index: int, item: Any) -> PersistentVector:
        """Return the vector with another item at an index in [0, length)."""
        return PersistentVector(self.length, _put(self._root, self._shift, index, item), self._shift)

    def appended(self, item: Any) -> PersistentVector:
        """Return the vector with an item appended."""
        grown = self.resized(self.length + 1)
        grown._root = _put(grown._root, grown._shift, self.length, item)  # it has no other reference yet
        return grown

    def resized(self, length: int) -> PersistentVector:
        """Return the first `length` items, padded with None."""
        if length < self.length:
            return PersistentVector(length, _cut(self._root, self._shift, length), self._shift)
        root, shift = self._root, self._shift
        while length > _WIDTH << shift:
            root = None if root is None else [root, *[None] * _MASK]
            shift += _BITS
        return PersistentVector(length, root, shift)

    def present(self) -> Iterator[tuple[int, Any]]:
        """Yield index and item of those that are not None, in order."""
        return _present(self._root, self._shift, 0)


EMPTY = PersistentVector(0, None, 0)


def vector_of(items: Iterable[Any]) -> PersistentVector:
    """Return a vector of these items."""
    level: list[Any] = list(items)
    length, shift = len(level), 0
    while True:
        chunks = [level[start : start + _WIDTH] for start in range(0, len(level), _WIDTH)]
        level = [chunk + [None] * (_WIDTH - len(chunk)) for chunk in chunks]
        if len(level) <= 1:
            return PersistentVector(length, level[0] if level else None, shift)
        shift += _BITS


def _put(node: list[Any] | None, shift: int, index: int, item: Any) -> list[Any]:
    branch = (index >> shift) & _MASK
    copy = [None] * _WIDTH if node is None else node.copy()
    copy[branch] = item if shift == 0 else _put(copy[branch], shift - _BITS, index, item)
    return copy


def _cut(node: list[Any] | None, shift: int, length: int) -> list[Any] | None:
    """Return a tree without the items from index `length` on."""
    if node is None or length <= 0:
        return None
    branch = length >> shift
    if branch >= _WIDTH:
        return node
    rest = None if shift == 0 else _cut(node[branch], shift - _BITS, length - (branch << shift))
    return [*node[:branch], rest, *[None] * (_MASK - branch)]


def _present(node: list[Any] | None, shift: int, first: int) -> Iterator[tuple[int, Any]]:
    for branch, child in enumerate(node or ()):
        if child is None:
            continue
        if shift == 0:
            yield first + branch, child
        else:
            yield from _present(child, shift - _BITS, first + (branch << shift))
