"""Random boxes by the seeds, and glimpses that are inside their images or padded by zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, partly, unknown

SIZE = np.array([120, 90, 3], np.int32)
BOXES = np.array([[[0.1, 0.2, 0.5, 0.6], [0.4, 0.4, 0.9, 0.8]]], np.float32)
WHOLE = {"use_image_if_no_bounding_boxes": True}


def boxes(op: str) -> list[Case]:
    def row(size: Any = SIZE, given: Any = BOXES, covered: float = 0.1, **options: Any) -> Case:
        attrs: dict[str, Any] = {"seed": 3, "seed2": 7} | options.pop("attrs", {})
        if op == "SampleDistortedBoundingBox":
            return case(op, size, given, attrs={"min_object_covered": covered, **attrs}, **options)
        return case(op, size, given, np.float32(covered), attrs=attrs, **options)

    return [
        *(row(attrs={"seed": seed}) for seed in (1, 2, 5)),
        *(row(covered=covered) for covered in (0.0, 0.5, 0.9, 1.0)),
        *(row(size=SIZE.astype(dtype)) for dtype in ("uint8", "int16", "int64")),
        row(size=np.array([7, 500, 1], np.int32)),
        row(size=np.array([1, 1, 1], np.int32)),
        row(attrs={"aspect_ratio_range": [0.3, 3.0]}),
        row(attrs={"area_range": [0.9, 1.0]}),
        row(attrs={"area_range": [0.08, 0.1], "max_attempts": 2}, covered=1.0),
        row(attrs={"max_attempts": 1}),
        row(given=BOXES[:, :0], attrs=WHOLE),
        row(given=unknown(BOXES), size=unknown(SIZE)),
        row(given=partly(BOXES, [1, None, 4]), size=const(SIZE)),
        row(given=BOXES[:, :0], bad=True),
        row(given=BOXES * 2, bad=True),
        row(given=BOXES[..., :3], bad=True),
        row(size=SIZE[:2], bad=True),
        row(covered=-0.5, bad=True),
        row(attrs={"area_range": [0.5, 1.5]}, bad=True),
        row(attrs={"aspect_ratio_range": [0.0, 1.5]}, bad=True),
        row(attrs={"max_attempts": 0}, bad=True),
    ]


IMAGES = sample("float32", (2, 7, 9, 2), 1, 0.0, 1.0)
WINDOW, MIDDLE = np.array([3, 4], np.int32), np.zeros((2, 2), np.float32)
ZERO = {"uniform_noise": False, "noise": "zero"}


def glimpses(op: str) -> list[Case]:
    def row(
        size: Any = (3, 4), offsets: Any = ((0.0, 0.0), (0.2, -0.3)), images: Any = IMAGES, **options: Any
    ) -> Case:
        attrs = ZERO | options.pop("attrs", {})
        return case(
            op, images, np.array(size, np.int32), np.array(offsets, np.float32), attrs=attrs, **options
        )

    return [
        row(),
        *(
            row(attrs={"centered": centered, "normalized": normalized}, offsets=offsets)
            for centered, normalized, offsets in (
                (True, False, [[0, 0], [-2, -3]]),
                (False, True, [[0.1, 0.2], [0.4, 0.3]]),
                (False, False, [[2, 3], [1, 5]]),
            )
        ),
        row(offsets=[[1.0, 1.0], [-1.0, -1.0]]),
        row(offsets=[[5.0, 0.0], [0.0, -5.0]]),
        row(size=[9, 3]),
        row(size=[7, 9]),
        row(size=[1, 1]),
        row(size=[2, 2], images=IMAGES[:, :, :, :1]),
        case(op, unknown(IMAGES), unknown(WINDOW), unknown(MIDDLE), attrs=ZERO),
        case(op, partly(IMAGES, [None, 7, None, 2]), const(WINDOW), MIDDLE, attrs=ZERO),
        case(op, IMAGES, WINDOW, MIDDLE),
        row(images=IMAGES[0], bad=True),
        row(offsets=[[0.0, 0.0]], bad=True),
        row(size=[3, 4, 1], bad=True),
        row(attrs={"noise": "pink"}, bad=True),
        row(attrs={"uniform_noise": True}, bad=True),
    ]  # fmt: skip


CASES: list[Case] = [
    *boxes("SampleDistortedBoundingBox"),
    *boxes("SampleDistortedBoundingBoxV2"),
    *glimpses("ExtractGlimpse"),
    *glimpses("ExtractGlimpseV2"),
]
