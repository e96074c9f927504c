"""Boxes in images: drawing, and non-maximum suppression."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims, compatible, merge, with_rank

Array = np.ndarray[Any, Any]

# Drawing

COLOURS = np.array(
    [
        *([1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1]),
        *([0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]),
    ],
    np.float32,
)
"""Default colours (RGBA), used cyclically."""


def _draw(image: Array, box: Array, colour: Array) -> None:
    """Draw the outline of a box, clipped to the image."""
    height, width = image.shape[:2]
    top, bottom = (int(edge * np.float32(height - 1)) for edge in (box[0], box[2]))
    left, right = (int(edge * np.float32(width - 1)) for edge in (box[1], box[3]))
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows, columns = (
        slice(max(top, 0), min(bottom, height - 1) + 1),
        slice(max(left, 0), min(right, width - 1) + 1),
    )
    if top >= 0:
        image[top, columns] = colour
    if bottom < height:
        image[bottom, columns] = colour
    if left >= 0:
        image[rows, left] = colour
    if right < width:
        image[rows, right] = colour


def draw_kernel(context: KernelContext) -> Compute:
    def compute(images: Array, boxes: Array, colours: Array | None = None) -> Array:
        if images.ndim != 4 or boxes.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[0] != images.shape[0]:
            raise InvalidArgumentError(
                f"images must be 4-D and boxes [batch, count, 4], got shapes {list(images.shape)} and {list(boxes.shape)}"
            )
        depth = images.shape[3]
        if depth not in (1, 3, 4):
            raise InvalidArgumentError(
                f"Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), got {depth}"
            )
        table = COLOURS.copy()
        if depth == 1:
            table[:, 0] = 1
        if colours is not None:
            if colours.ndim != 2 or colours.shape[1] < depth:
                raise InvalidArgumentError(
                    f"colors must be a matrix of {depth} columns, got shape {list(colours.shape)}"
                )
            table = colours.astype(np.float32) if len(colours) else table
        result = images.copy()
        finite = np.nan_to_num(boxes, nan=0.0, posinf=1e6, neginf=-1e6)
        for image, in_image in zip(result, np.clip(finite, -1e6, 1e6), strict=True):
            for number, box in enumerate(in_image):
                _draw(image, box, table[number % len(table), :depth].astype(images.dtype))
        return result

    return compute


def drawn_shape(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.inputs[0], 4)
    boxes = with_rank(context.inputs[1], 3)
    assert boxes is not None
    if not compatible(boxes[2:], (4,)):
        raise GraphValueError(f"Dimension must be 4 but is {boxes[2]}")
    return [context.inputs[0]]


_DRAWN = "T:type{float|half}=float"
register(
    f"DrawBoundingBoxes(images:T, boxes:float) -> (output:T) [{_DRAWN}]",
    shape=drawn_shape,
    kernel=draw_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    f"DrawBoundingBoxesV2(images:T, boxes:float, colors:float) -> (output:T) [{_DRAWN}]",
    shape=drawn_shape,
    kernel=draw_kernel,
    gradient=undefined_gradient,
)

# Non-maximum suppression: take candidates by descending score, skipping those too similar to one taken before

Similarity = Callable[[int, Sequence[int]], Array]
"""(candidate, other candidates) to their similarities."""


def overlaps(boxes: Array) -> Similarity:
    """Return the similarity of boxes: intersection over union."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    areas = np.prod(high - low, axis=1)

    def similarity(one: int, others: Sequence[int]) -> Array:
        chosen = np.asarray(others, np.int64)
        sides = np.minimum(high[one], high[chosen]) - np.maximum(low[one], low[chosen])
        shared = np.prod(np.maximum(sides, np.float32(0)), axis=1)
        with np.errstate(all="ignore"):
            share = shared / (areas[one] + areas[chosen] - shared)
        return np.where((areas[one] > 0) & (areas[chosen] > 0), share, np.float32(0))

    return similarity


def choose(
    scores: Array, similarity: Similarity, most: int, threshold: float, least_score: float, sigma: float = 0.0
) -> tuple[list[int], list[float]]:
    """Return the indices of the selected candidates, and their scores.

    With a positive `sigma` (soft NMS), similar candidates are not skipped: their scores decay by exp(-similarity² / (2 sigma))
    and they are queued again. Each candidate is compared once with each selected one.
    """
    decay = np.float32(-0.5) / np.float32(sigma) if sigma > 0 else np.float32(0)
    queue = [(-float(score), number, 0) for number, score in enumerate(scores) if score > least_score]
    heapq.heapify(queue)
    chosen: list[int] = []
    found: list[float] = []
    while queue and len(chosen) < most:
        negative, number, seen = heapq.heappop(queue)
        score = original = np.float32(-negative)
        if score <= least_score:
            break
        similar = similarity(number, chosen[seen:])
        if sigma == 0 and np.any(similar > threshold):
            continue
        if sigma > 0:
            for each in similar[::-1]:
                score = score * np.exp(decay * each * each)
        if score == original:
            chosen.append(number)
            found.append(float(score))
        elif score > least_score:
            heapq.heappush(queue, (-float(score), number, len(chosen)))
    return chosen, found


def _check(boxes: Array, scores: Array, most: Array, threshold: float | None) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must have 4 columns, got shape {list(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise InvalidArgumentError(
            f"scores has incompatible shape {list(scores.shape)} for {len(boxes)} boxes"
        )
    _check_most(most)
    if threshold is not None and not 0 <= threshold <= 1:
        raise InvalidArgumentError(f"iou_threshold must be in [0, 1], got {threshold}")


def _check_most(most: Array) -> None:
    if most.ndim:
        raise InvalidArgumentError(f"max_output_size must be 0-D, got shape {list(most.shape)}")
    if most < 0:
        raise InvalidArgumentError(f"max_output_size must be non-negative, got {int(most)}")


def _scalar(value: Array) -> float:
    if value.ndim:
        raise InvalidArgumentError(f"a threshold must be 0-D, got shape {list(value.shape)}")
    return float(value)


def suppression_kernel(context: KernelContext) -> Compute:
    """Return the kernel of all versions of the op: thresholds that are not inputs are attributes or have no effect."""
    attrs, count = context.attrs, len(context.output_dtypes)
    pads = attrs.get("pad_to_max_output_size", False)

    def compute(boxes: Array, scores: Array, most: Array, *rest: Array) -> Any:
        given = [_scalar(each) for each in rest]
        threshold = given[0] if given else float(np.float32(attrs["iou_threshold"]))
        least = given[1] if len(given) > 1 else -np.inf
        sigma = given[2] if len(given) > 2 else 0.0
        if not sigma >= 0:
            raise InvalidArgumentError(f"soft_nms_sigma must be non-negative, got {sigma}")
        _check(boxes, scores, most, threshold)
        chosen, found = choose(
            scores.astype(np.float32), overlaps(boxes.astype(np.float32)), int(most), threshold, least, sigma
        )
        valid = np.array(len(chosen), np.int32)
        missing = int(most) - len(chosen) if pads else 0
        if missing > MOST_PADDING:
            raise InvalidArgumentError(f"max_output_size {int(most)} is too large to pad to")
        indices = np.array(chosen + [0] * missing, np.int32)
        if count == 1:
            return indices
        if count == 2:
            return indices, valid
        return indices, np.array(found + [0.0] * missing, scores.dtype), valid

    return compute


MOST_PADDING = 1 << 28


def overlaps_kernel(context: KernelContext) -> Compute:
    def compute(given: Array, scores: Array, most: Array, threshold: Array, least: Array) -> Array:
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise InvalidArgumentError(f"overlaps must be square, got shape {list(given.shape)}")
        if scores.shape != given.shape[:1]:
            raise InvalidArgumentError(f"scores has incompatible shape {list(scores.shape)}")
        _check_most(most)
        chosen, _ = choose(
            scores,
            lambda one, others: given[one, np.asarray(others, np.int64)],
            int(most),
            _scalar(threshold),
            _scalar(least),
        )
        return np.array(chosen, np.int32)

    return compute


def chosen_shape(outputs: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        boxes, scores = with_rank(context.inputs[0], 2), with_rank(context.inputs[1], 1)
        assert boxes is not None
        merge(boxes[:1], scores)
        if not compatible(boxes[1:], (4,)):
            raise GraphValueError(f"Dimension must be 4 but is {boxes[1]}")
        for scalar in context.inputs[2:]:
            with_rank(scalar, 0)
        count = context.value(2) if context.attrs.get("pad_to_max_output_size") else None
        if count is not None and count < 0:
            raise GraphValueError(f"max_output_size must be non-negative, got {int(count)}")
        vector = (None if count is None else int(count),)
        shapes: list[list[Dims]] = [[vector], [vector, ()], [vector, vector, ()]]
        return shapes[outputs - 1]

    return rule


def square_shape(context: ShapeContext) -> Sequence[Dims]:
    given, scores = with_rank(context.inputs[0], 2), with_rank(context.inputs[1], 1)
    assert given is not None
    merge(merge(given[:1], scores), given[1:])
    for scalar in context.inputs[2:]:
        with_rank(scalar, 0)
    return [(None,)]


_BOXES = "boxes:T, scores:T, max_output_size:int32"
_TYPES = "T:type{half|float}=float; T_threshold:type{half|float}=float"
_INDICES = "selected_indices:int32"
_PADS = "pad_to_max_output_size:bool=false"
_ROWS: tuple[tuple[str, int, Any], ...] = (
    (
        f"NonMaxSuppression(boxes:float, scores:float, max_output_size:int32) -> ({_INDICES}) [iou_threshold:float=0.5]",
        1,
        NOT_DIFFERENTIABLE,
    ),
    (
        f"NonMaxSuppressionV2({_BOXES}, iou_threshold:T_threshold) -> ({_INDICES}) [{_TYPES}]",
        1,
        NOT_DIFFERENTIABLE,
    ),
    (
        f"NonMaxSuppressionV3({_BOXES}, iou_threshold:T_threshold, score_threshold:T_threshold) -> ({_INDICES}) [{_TYPES}]",
        1,
        undefined_gradient,
    ),
    (
        f"NonMaxSuppressionV4({_BOXES}, iou_threshold:T_threshold, score_threshold:T_threshold) -> "
        f"({_INDICES}, valid_outputs:int32) [{_TYPES}; {_PADS}]",
        2,
        undefined_gradient,
    ),
    (
        f"NonMaxSuppressionV5({_BOXES}, iou_threshold:T, score_threshold:T, soft_nms_sigma:T) -> "
        f"({_INDICES}, selected_scores:T, valid_outputs:int32) [T:type{{half|float}}=float; {_PADS}]",
        3,
        undefined_gradient,
    ),
)
for _signature, _outputs, _gradient in _ROWS:
    register(
        _signature,
        shape=chosen_shape(_outputs),
        kernel=suppression_kernel,
        gradient=_gradient,
        dynamic_shape=True,
    )
register(
    "NonMaxSuppressionWithOverlaps(overlaps:float, scores:float, max_output_size:int32, overlap_threshold:float, "
    f"score_threshold:float) -> ({_INDICES})",
    shape=square_shape,
    kernel=overlaps_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
