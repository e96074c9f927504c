"""The loop of the CTC loss (Graves, Fernández, Gomez and Schmidhuber, 2006) and of its gradient."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, exp, inf, log, log1p, offset

BAD_ORDER, BAD_LENGTH, NO_LABELS, AFTER_NULL, NEGATIVE, TOO_LONG = 1, 2, 3, 4, 5, 6
"""The statuses of `ctc_losses`, as the statuses of the op are numbered."""


def log_sum(x: Real, y: Real) -> Real:
    """Return log(exp(x) + exp(y))."""
    if x == -inf:
        return y
    if y == -inf:
        return x
    return x + log1p(exp(y - x)) if x > y else y + log1p(exp(x - y))


def log_probabilities(x: Pointer, y: Pointer, n: int) -> None:
    """Set y to the logarithm of the softmax of x."""
    largest = x[0]
    for i in range(1, n):
        largest = max(largest, x[i])
    total = 0.0
    for i in range(n):
        total += exp(x[i] - largest)
    shift = largest + log(total)
    for i in range(n):
        y[i] = x[i] - shift


def path_of(labels: Pointer, path: Pointer, count: int, blank: int, collapses: int) -> int:
    """Set `path` to the labels with blanks before, between and after; return its length, or minus a status."""
    length, finished = 0, 0
    path[0] = blank
    for k in range(count):
        label = int(labels[k])
        if collapses > 0 and k > 0 and label == int(labels[k - 1]):
            continue
        if label >= blank:
            finished = 1
            continue
        if finished > 0:
            return -AFTER_NULL
        if label < 0:
            return -NEGATIVE
        path[2 * length + 1] = label
        path[2 * length + 2] = blank
        length += 1
    return 2 * length + 1


def forward(y: Pointer, alpha: Pointer, path: Pointer, steps: int, n: int, classes: int, merges: int) -> None:
    """alpha[t, u]: log probability of the ways to place u of the path at step t."""
    blank = classes - 1
    for u in range(n):
        alpha[u] = -inf
    alpha[0] = y[blank]
    if n > 1:
        alpha[1] = y[int(path[1])]
    for t in range(1, steps):
        row, before, p = offset(alpha, t * n), offset(alpha, (t - 1) * n), offset(y, t * classes)
        for u in range(n):
            row[u] = -inf
        for u in range(max(0, n - 2 * (steps - t)), min(n, 2 * (t + 1))):
            label = int(path[u])
            total = before[u] if merges > 0 or label == blank else -inf
            if u > 0:
                total = log_sum(total, before[u - 1])
            if u > 1 and label != blank and not (merges > 0 and label == int(path[u - 2])):
                total = log_sum(total, before[u - 2])
            row[u] = total + p[label]


def backward(
    p: Pointer,
    row: Pointer,
    after: Pointer,
    path: Pointer,
    n: int,
    first: int,
    last: int,
    blank: int,
    merges: int,
) -> None:
    """row[u]: log probability of the rest of the path after u at this step, from `after` at the next step."""
    for u in range(n):
        row[u] = -inf
    for u in range(first, last):
        label = int(path[u])
        total = after[u] + p[label] if merges > 0 or label == blank else -inf
        if u + 1 < n:
            total = log_sum(total, after[u + 1] + p[int(path[u + 1])])
        if u + 2 < n and label != blank and not (merges > 0 and label == int(path[u + 2])):
            total = log_sum(total, after[u + 2] + p[int(path[u + 2])])
        row[u] = total


def sequence_loss(
    y: Pointer,
    gradient: Pointer,
    alpha: Pointer,
    beta: Pointer,
    path: Pointer,
    steps: int,
    n: int,
    classes: int,
    stride: int,
    merges: int,
) -> Real:
    """Return the loss of one sequence, and set its gradient, whose steps are `stride` elements apart.

    Args:
        y: log probabilities [steps, classes].
        alpha: memory for [steps, n]; beta: for [2, n].
        n: length of the path.
    """
    forward(y, alpha, path, steps, n, classes, merges)
    total = alpha[(steps - 1) * n + n - 1]
    if n > 1:
        total = log_sum(total, alpha[(steps - 1) * n + n - 2])
    for t in range(steps):
        for c in range(classes):
            gradient[t * stride + c] = exp(y[t * classes + c])
    if total == -inf:
        return inf
    for step in range(steps):
        t = steps - 1 - step
        row, after = offset(beta, (t % 2) * n), offset(beta, ((t + 1) % 2) * n)
        if step == 0:
            for u in range(n):
                row[u] = 0.0 if u >= n - 2 else -inf
        else:
            low, high = max(0, n - 2 * (steps - t)), min(n, 2 * (t + 1))
            backward(offset(y, (t + 1) * classes), row, after, path, n, low, high, classes - 1, merges)
        for u in range(n):
            gradient[t * stride + int(path[u])] -= exp(alpha[t * n + u] + row[u] - total)
    return -total


def ctc_losses(
    logits: Pointer,
    places: Pointer,
    labels: Pointer,
    lengths: Pointer,
    loss: Pointer,
    gradient: Pointer,
    work: Pointer,
    path: Pointer,
    steps: int,
    batch: int,
    classes: int,
    count: int,
    collapses: int,
    merges: int,
    ignores: int,
) -> int:
    """Compute the loss of each sequence of a batch, and its gradient.

    Args:
        logits, gradient: [steps, batch, classes].
        places: int64 [count, 2], the sequence and position of each of the `labels`, ordered.
        work: memory for steps · (classes + longest) + 2 · longest elements, `path` for `longest`, which is
            2 · min(count, steps) + 1.
        collapses: equal neighbouring labels are one. merges: equal neighbouring outputs are one. ignores: the loss of
            sequences shorter than their labels is 0.
    """
    for i in range(steps * batch * classes):
        gradient[i] = 0
    position = 0
    for b in range(batch):
        length, first = int(lengths[b]), position
        while position < count and int(places[2 * position]) == b:
            position += 1
        number = position - first
        loss[b] = 0
        if length < 0 or length > steps:
            return BAD_LENGTH
        if number == 0:
            return NO_LABELS
        if number > length:
            if ignores == 0:
                return TOO_LONG
            continue
        n = path_of(offset(labels, first), path, number, classes - 1, collapses)
        if n < 0:
            return -n
        for t in range(length):
            log_probabilities(offset(logits, (t * batch + b) * classes), offset(work, t * classes), classes)
        alpha = offset(work, steps * classes)
        beta = offset(alpha, length * n)
        target = offset(gradient, b * classes)
        loss[b] = sequence_loss(work, target, alpha, beta, path, length, n, classes, batch * classes, merges)
    return 0 if position == count else BAD_ORDER
