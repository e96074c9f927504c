"""Compiled loops on rows of variables. Indices are checked before anything is written: updates may be in place.

Loops of optimizers process repeated rows in sequence, as the reference kernels do.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, int64, sqrt


def outside(indices: Pointer, count: int, rows: int) -> int:
    """Return 1 if an index is not in [0, rows), else 0."""
    for i in range(count):
        if indices[i] < 0 or indices[i] >= rows:
            return 1
    return 0


def gather_rows(params: Pointer, indices: Pointer, out: Pointer, count: int, width: int, rows: int) -> int:
    """out[count, width] = params[indices]; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            out[i * width + j] = params[start + j]
    return 0


def rows_of_coordinates(
    indices: Pointer, flat: Pointer, count: int, depth: int, column: int, dim: int, step: int
) -> int:
    """Convert coordinates to slice numbers column by column (`step` per slice); returns 1 if one is out of range."""
    for i in range(count):
        k = int64(indices[i * depth + column])
        if k < 0 or k >= dim:
            return 1
        if column == 0:
            flat[i] = k * step
        else:
            flat[i] += k * step
    return 0


# Scattering. `step` is the distance between updates of adjacent elements; 0 for a single update of all.


def put_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] = updates, the last of repeated rows counts; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] = updates[(i * width + j) * step]
    return 0


def add_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] += updates, repeated rows accumulate; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] += updates[(i * width + j) * step]
    return 0


def subtract_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] -= updates, repeated rows accumulate; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] -= updates[(i * width + j) * step]
    return 0


def multiply_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] *= updates, repeated rows in sequence; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] *= updates[(i * width + j) * step]
    return 0


def divide_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] /= updates, repeated rows in sequence; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] /= updates[(i * width + j) * step]
    return 0


def least_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] = minimum of it and updates; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            update = updates[(i * width + j) * step]
            if update < state[start + j] or update != update:
                state[start + j] = update
    return 0


def greatest_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int, step: int
) -> int:
    """state[indices] = maximum of it and updates; returns 1 if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            update = updates[(i * width + j) * step]
            if update > state[start + j] or update != update:
                state[start + j] = update
    return 0


# Optimizers


def momentum_rows(
    var: Pointer,
    accum: Pointer,
    lr: Pointer,
    grad: Pointer,
    indices: Pointer,
    momentum: Pointer,
    count: int,
    width: int,
    rows: int,
    nesterov: int,
) -> int:
    """One step of momentum on the rows var[indices]; returns 1, without changes, if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    rate, keep = lr[0], momentum[0]
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            gradient = grad[i * width + j]
            speed = accum[start + j] * keep + gradient
            accum[start + j] = speed
            if nesterov:
                var[start + j] -= gradient * rate + speed * keep * rate
            else:
                var[start + j] -= rate * speed
    return 0


def keras_momentum_rows(
    var: Pointer,
    accum: Pointer,
    lr: Pointer,
    grad: Pointer,
    indices: Pointer,
    momentum: Pointer,
    count: int,
    width: int,
    rows: int,
    nesterov: int,
) -> int:
    """As `momentum_rows`, with the learning rate included in the accumulator."""
    if outside(indices, count, rows):
        return 1
    rate, keep = lr[0], momentum[0]
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            gradient = grad[i * width + j]
            speed = accum[start + j] * keep - gradient * rate
            accum[start + j] = speed
            if nesterov:
                var[start + j] += speed * keep - gradient * rate
            else:
                var[start + j] += speed
    return 0


def adagrad_rows(
    var: Pointer,
    accum: Pointer,
    lr: Pointer,
    grad: Pointer,
    indices: Pointer,
    count: int,
    width: int,
    rows: int,
    update_slots: int,
) -> int:
    """One step of Adagrad on the rows var[indices]; returns 1, without changes, if an index is out of range."""
    if outside(indices, count, rows):
        return 1
    rate = lr[0]
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            gradient = grad[i * width + j]
            if update_slots:
                accum[start + j] += gradient * gradient
            var[start + j] -= rate * gradient / sqrt(accum[start + j])
    return 0


def adagrad_v2_rows(
    var: Pointer,
    accum: Pointer,
    lr: Pointer,
    epsilon: Pointer,
    grad: Pointer,
    indices: Pointer,
    count: int,
    width: int,
    rows: int,
    update_slots: int,
) -> int:
    """As `adagrad_rows`, with epsilon added to the root."""
    if outside(indices, count, rows):
        return 1
    rate, floor = lr[0], epsilon[0]
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            gradient = grad[i * width + j]
            if update_slots:
                accum[start + j] += gradient * gradient
            var[start + j] -= rate * gradient / (sqrt(accum[start + j]) + floor)
    return 0


def beyond_limit(value: Pointer, sign: int, zero: int) -> int:
    """Return 1 unless the scalar has this sign, or is an allowed zero."""
    signed = value[0] * sign
    if signed > 0 or (zero and signed == 0):
        return 0
    return 1
