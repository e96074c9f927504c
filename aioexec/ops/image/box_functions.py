"""Functions on boxes in images: drawing, and the variants of non-maximum suppression."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Draw boxes [batch, count, (top, left, bottom, right) in 0 … 1] into images, in `colors` or default colours."""
    if colors is None:
        return apply_op("DrawBoundingBoxes", images, boxes, name=name)
    return apply_op("DrawBoundingBoxesV2", images, boxes, colors, name=name)


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the indices of the best boxes that overlap no better one by more than `iou_threshold`.

    Args:
        boxes: [count, 4], two opposite corners (y, x) of each.
        scores: [count]; boxes up to `score_threshold` are left out.

    Returns:
        int32, at most `max_output_size` indices by descending score.
    """
    with op_scope(name, "non_max_suppression", boxes, scores):
        return apply_op("NonMaxSuppressionV3", boxes, scores, max_output_size, iou_threshold, score_threshold)


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, returning the scores too; a positive `soft_nms_sigma` decays scores instead (Soft-NMS).

    Returns:
        The indices (int32) and scores of the selected boxes.
    """
    with op_scope(name, "non_max_suppression_with_scores", boxes, scores):
        thresholds = iou_threshold, score_threshold, soft_nms_sigma
        indices, found, _ = apply_tuple_op(
            "NonMaxSuppressionV5", boxes, scores, max_output_size, *thresholds, pad_to_max_output_size=False
        )
        return indices, found


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, with the indices padded by 0 to `max_output_size` if `pad_to_max_output_size`.

    Returns:
        The indices, and the number of those that are not padding: int32.
    """
    with op_scope(name, "non_max_suppression_padded", boxes, scores):
        indices, count = apply_tuple_op(
            "NonMaxSuppressionV4",
            boxes,
            scores,
            max_output_size,
            iou_threshold,
            score_threshold,
            pad_to_max_output_size=pad_to_max_output_size,
        )
        return indices, count


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, for given overlaps [count, count] of each pair of boxes."""
    with op_scope(name, "non_max_suppression_overlaps", overlaps, scores):
        return apply_op(
            "NonMaxSuppressionWithOverlaps",
            overlaps,
            scores,
            max_output_size,
            overlap_threshold,
            score_threshold,
        )
