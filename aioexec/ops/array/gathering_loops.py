"""Compiled loops of the gather and scatter ops."""

from __future__ import annotations

from typing import Any


def gather_rows(
    params: Any, indices: Any, out: Any, batch: int, outer: int, limit: int, count: int, inner: int
) -> int:
    """out[b, o, i] = params[b, o, indices[b, i]], rows of `inner` elements; returns 1 if an index is out of range."""
    for b in range(batch):
        for o in range(outer):
            for i in range(count):
                k = int(indices[b * count + i])
                if k < 0 or k >= limit:
                    return 1
                source = ((b * outer + o) * limit + k) * inner
                target = ((b * outer + o) * count + i) * inner
                for j in range(inner):
                    out[target + j] = params[source + j]
    return 0


def scatter_add_rows(
    indices: Any, updates: Any, out: Any, limit: int, count: int, inner: int, drop: int
) -> int:
    """out[indices[i]] += updates[i]; with `drop` negative indices are skipped; returns 1 if one is out of range."""
    for i in range(count):
        k = int(indices[i])
        if k < 0 and drop == 1:
            continue
        if k < 0 or k >= limit:
            return 1
        for j in range(inner):
            out[k * inner + j] += updates[i * inner + j]
    return 0


def flatten_indices(indices: Any, flat: Any, count: int, depth: int, column: int, dim: int) -> int:
    """flat[i] = flat[i] * dim + indices[i, column]; returns 1 if an index is out of range."""
    for i in range(count):
        k = int(indices[i * depth + column])
        if k < 0 or k >= dim:
            return 1
        flat[i] = flat[i] * dim + k
    return 0


def clear(flat: Any, count: int) -> int:
    """Fill with zeros."""
    for i in range(count):
        flat[i] = 0
    return 0
