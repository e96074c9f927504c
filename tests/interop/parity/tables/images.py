"""Image ops and neighbourhoods: colours, boxes, patches, dilation, local response, fake quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

IMAGE = sample("float32", (2, 5, 6, 3), 1, 0.0, 1.0)
ROUGH: dict[str, Any] = {"tolerance": 32.0, "note": "computed in the short type there, in float32 here"}

# Colours


def rough(dtype: str) -> dict[str, Any]:
    return ROUGH if dtype in ("float16", "bfloat16") else {}


def colours() -> list[Case]:
    rows: list[Case] = []
    for op in ("RGBToHSV", "HSVToRGB"):
        rows += [
            case(op, sample(name, (2, 3, 3), 2, 0.0, 1.0), grad=name != "float16", **rough(name))
            for name in plain_dtypes(op)
        ]
        rows += [
            case(op, sample("float32", shape, 3, 0.0, 1.0))
            for shape in ((3,), (0, 3), (4, 3), (2, 2, 2, 2, 3))
        ]
        rows += [
            case(op, [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.0, 0.5], [0.2, 0.2, 0.1]], grad=False),
            case(op, unknown(IMAGE)),
            case(op, partly(IMAGE, [2, None, None, None])),
            case(op, IMAGE[..., :2], bad=True),
            case(op, unknown(IMAGE[..., :2]), bad=True),
            case(op, 1.0, bad=True),
        ]
    for op, amounts in (
        ("AdjustContrastv2", (0.0, 0.5, 2.0)),
        ("AdjustHue", (0.0, 0.3, -0.9)),
        ("AdjustSaturation", (0.0, 0.5, 3.0)),
    ):
        rows += [case(op, IMAGE, amount) for amount in amounts]
        rows += [case(op, sample("float16", (3, 2, 3), 4, 0.0, 1.0), 0.5, **ROUGH)]
        rows += [
            case(op, sample("float32", shape, 5, 0.0, 1.0), 0.25)
            for shape in ((2, 2, 3), (0, 2, 2, 3), (2, 1, 2, 2, 3))
        ]
        rows += [
            case(op, unknown(IMAGE), unknown(0.5)),
            case(op, partly(IMAGE, [None, 5, 6, 3]), 0.5),
            case(op, IMAGE[0, 0], 0.5, bad=True),
            case(op, unknown(IMAGE[0, 0]), 0.5, bad=True),
            case(op, IMAGE, [0.5, 0.5], bad=True),
            case(op, IMAGE[..., :2], 0.5, bad=op != "AdjustContrastv2"),
        ]
    return rows


# Boxes

BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
    np.float32,
)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


def drawing() -> list[Case]:
    boxes = np.array(
        [
            [[0.1, 0.2, 0.6, 0.8], [0.0, 0.0, 1.0, 1.0], [-0.5, 0.3, 0.4, 1.5]],
            [[0.5, 0.5, 0.4, 0.9], [1.5, 1.5, 2.0, 2.0], [0.3, 0.3, 0.3, 0.3]],
        ],
        np.float32,
    )
    images = {depth: sample("float32", (2, 8, 9, depth), 1, 0.0, 1.0) for depth in (1, 3, 4)}
    many = np.random.default_rng(3).uniform(0, 1, (2, 13, 4)).astype(np.float32)
    rows = []
    for op, more in (
        ("DrawBoundingBoxes", ()),
        ("DrawBoundingBoxesV2", (np.array([[1, 0, 0, 1], [0, 1, 0.5, 1]], np.float32),)),
    ):
        rows += [case(op, image, boxes, *more) for image in images.values()]
        rows += [
            case(op, images[3], many, *more),
            case(op, images[3].astype(np.float16), boxes, *more),
            case(op, images[3], boxes[:, :0], *more),
            case(op, images[3][:0], boxes[:0], *more),
            case(op, unknown(images[3]), unknown(boxes), *more),
            case(op, partly(images[3], [2, None, None, 3]), boxes, *more),
            case(op, images[3], boxes[..., :3], *more, bad=True),
            case(op, images[3], unknown(boxes[..., :3]), *more, bad=True),
            case(op, images[3][0], boxes, *more, bad=True),
        ]
    return rows


def suppression() -> list[Case]:
    draw = np.random.default_rng(7)
    corner, size = draw.uniform(0, 1, (40, 2)), draw.uniform(0.1, 0.5, (40, 2))
    many = np.concatenate([corner, corner + size], axis=1).astype(np.float32)
    scores = draw.permutation(40).astype(np.float32) / 40
    flipped = BOXES[:, [2, 3, 0, 1]]
    rows = []
    for version, extra in ((1, 0), (2, 1), (3, 2), (4, 2), (5, 3)):
        op = f"NonMaxSuppression{'' if version == 1 else f'V{version}'}"

        def row(
            boxes: Any, scores: Any, most: Any, iou: float = 0.5, least: float = 0.0, sigma: float = 0.0,
            op: str = op, version: int = version, extra: int = extra, **options: Any,
        ) -> Case:  # fmt: skip
            attrs: dict[str, Any] = {"iou_threshold": iou} if version == 1 else {}
            attrs |= options.pop("attrs", {})
            return case(op, boxes, scores, most, *(iou, least, sigma)[:extra], attrs=attrs, **options)

        rows += [
            *(row(BOXES, SCORES, const(most)) for most in (0, 1, 3, 30)),
            *(row(many, scores, 20, iou=iou) for iou in (0.0, 0.3, 1.0)),
            row(flipped, SCORES, 3),
            row(BOXES[:0], SCORES[:0], 3),
            row(BOXES, np.full(6, 0.5, np.float32), 6),
            row(unknown(BOXES), unknown(SCORES), unknown(3)),
            row(BOXES, SCORES, -1, bad=True),
            row(BOXES, SCORES[:2], 3, bad=True),
            row(BOXES[:, :3], SCORES, 3, bad=True),
            row(BOXES, SCORES, 3, iou=1.5, bad=True),
        ]
        if version > 2:
            rows += [row(many, scores, 30, iou=0.4, least=least) for least in (0.3, 0.9)]
        if version > 3:
            pads = {"pad_to_max_output_size": True}
            rows += [row(BOXES, SCORES, const(5), attrs=pads), row(BOXES, SCORES, 5, attrs=pads)]
        if version == 5:
            rows += [row(many, scores, 30, iou=1.0, sigma=sigma, least=0.1) for sigma in (0.2, 0.5)]
            rows += [row(BOXES, SCORES, 6, sigma=0.5), row(BOXES, SCORES, 6, sigma=-1.0, bad=True)]
    square = draw.uniform(0, 1, (6, 6)).astype(np.float32)
    op = "NonMaxSuppressionWithOverlaps"
    rows += [
        case(op, square, SCORES, most, limit, least)
        for most in (0, 2, 9)
        for limit in (0.2, 0.7)
        for least in (0.0, 0.6)
    ]
    return [
        *rows,
        case(op, square[:5], SCORES, 3, 0.5, 0.0, bad=True),
        case(op, square, SCORES[:4], 3, 0.5, 0.0, bad=True),
        case(op, square, SCORES, -3, 0.5, 0.0, bad=True),
    ]


# Neighbourhoods


def sizes(value: int) -> list[int]:
    return [1, value, value, 1]


def patches() -> list[Case]:
    op = "ExtractImagePatches"
    image = sample("float32", (2, 6, 7, 2), 2)

    def attrs(size: int, stride: int, rate: int, padding: str) -> dict[str, Any]:
        return {"ksizes": sizes(size), "strides": sizes(stride), "rates": sizes(rate), "padding": padding}

    rows = [
        case(op, image, attrs=attrs(size, stride, rate, padding))
        for size, stride, rate in ((1, 1, 1), (2, 1, 1), (3, 2, 1), (2, 1, 2))
        for padding in ("SAME", "VALID")
    ]
    one = attrs(2, 1, 1, "VALID")
    return [
        *rows,
        *(case(op, sample(name, (1, 3, 4, 2), 3), attrs=one) for name in plain_dtypes(op)),
        case(op, image[:0], attrs=one, grad=False),
        case(op, unknown(image), attrs=one, grad=False),
        case(op, partly(image, [None, 6, 7, 2]), attrs=one),
        case(op, image[0], attrs=one, bad=True),
        case(op, image, attrs=one | {"ksizes": [2, 2]}, bad=True),
        case(op, image, attrs=one | {"strides": [2, 1, 1, 1]}, bad=True),
        case(op, image, attrs=attrs(9, 1, 1, "VALID"), bad=True),
    ]


def dilation() -> list[Case]:
    image, filters = sample("float32", (2, 6, 7, 2), 2), sample("float32", (2, 3, 2), 3)

    def attrs(stride: int, rate: int, padding: str) -> dict[str, Any]:
        return {"strides": sizes(stride), "rates": sizes(rate), "padding": padding}

    rows: list[Case] = []
    for stride, rate, padding in ((1, 1, "SAME"), (1, 1, "VALID"), (2, 1, "SAME"), (1, 2, "VALID")):
        given = attrs(stride, rate, padding)
        rows.append(case("Dilation2D", image, filters, attrs=given))
        tall, wide = (-(-6 // stride), -(-7 // stride)) if padding == "SAME" else (6 - rate, 7 - 2 * rate)
        dy = sample("float32", (2, tall, wide, 2), 4)
        rows += [
            case(f"Dilation2DBackprop{each}", image, filters, dy, attrs=given) for each in ("Input", "Filter")
        ]
    one = attrs(1, 1, "VALID")
    for name in plain_dtypes("Dilation2D"):
        small, few = sample(name, (1, 4, 5, 2), 5), sample(name, (2, 2, 2), 6)
        dy = sample(name, (1, 3, 4, 2), 7)
        rows.append(case("Dilation2D", small, few, attrs=one))
        rows += [
            case(f"Dilation2DBackprop{each}", small, few, dy, attrs=one, **rough(name))
            for each in ("Input", "Filter")
        ]
    return [
        *rows,
        case("Dilation2D", unknown(image), filters, attrs=one),
        case("Dilation2D", image[:0], filters, attrs=one, grad=False),
        case("Dilation2D", image[0], filters, attrs=one, bad=True),
        case("Dilation2D", image, filters[..., :1], attrs=one, bad=True),
        case("Dilation2D", image, filters, attrs=one | {"rates": [2]}, bad=True),
    ]


def local_response() -> list[Case]:
    x = sample("float32", (2, 3, 2, 7), 2)
    rows: list[Case] = []
    settings: list[dict[str, Any]] = [
        {},
        {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
        {"depth_radius": 2, "alpha": 0.1, "beta": 1.0},
        {"depth_radius": 0},
        {"depth_radius": 20, "bias": 1.5},
    ]
    for attrs in settings:
        rows.append(case("LRN", x, attrs=attrs))
        rows.append(case("LRNGrad", sample("float32", x.shape, 3), x, x / 2, attrs=attrs))
    for name in plain_dtypes("LRN"):
        given = [sample(name, (1, 2, 2, 5), k) for k in (1, 2, 3)]
        rows.append(case("LRN", given[0], **rough(name)))
        rows.append(case("LRNGrad", *given, **rough(name)))
    return [
        *rows,
        *(case("LRN", sample("float32", (1, 1, 1, depth), 4)) for depth in (1, 2, 12)),
        case("LRN", unknown(x)),
        case("LRN", x[:0]),
        case("LRN", x[0], bad=True),
        case("LRN", unknown(x[0]), bad=True),
        *(
            case("LRNGrad", *(sample("float32", (1, 1, 1, depth), k) for k in (4, 5, 6)))
            for depth in (1, 2, 12)
        ),
        case("LRNGrad", unknown(x), x, x),
        case("LRNGrad", x, x, x[:1], bad=True),
        case("LRNGrad", x[:, :1], unknown(x), unknown(x), bad=True),
    ]


def fake_quantization() -> list[Case]:
    x = sample("float32", (3, 4), 2, -9.0, 9.0)
    ranges = ((-6.0, 6.0), (0.0, 5.0), (-3.0, 0.0), (-0.1, 0.25), (1.0, 4.0), (-5.0, -2.0))
    settings: list[dict[str, Any]] = [{}, {"num_bits": 4}, {"narrow_range": True}, {"num_bits": 16}]
    name = "FakeQuantWithMinMax"
    rows: list[Case] = []
    for low, high in ranges:
        for attrs in settings:
            bounds = attrs | {"min": low, "max": high}
            rows.append(case(f"{name}Args", x, attrs=bounds))
            rows.append(case(f"{name}ArgsGradient", sample("float32", x.shape, 3), x, attrs=bounds))
            rows.append(case(f"{name}Vars", x, low, high, attrs=attrs))
            rows.append(case(f"{name}VarsGradient", sample("float32", x.shape, 3), x, low, high, attrs=attrs))
    lows, highs = (np.array([each[k] for each in ranges[:4]], np.float32) for k in (0, 1))
    for shape in ((3, 4), (4,), (2, 1, 3, 4), (0, 4)):
        for attrs in settings:
            given = sample("float32", shape, 4, -9.0, 9.0)
            rows.append(case(f"{name}VarsPerChannel", given, lows, highs, attrs=attrs))
            rows.append(
                case(
                    f"{name}VarsPerChannelGradient",
                    sample("float32", shape, 5),
                    given,
                    lows,
                    highs,
                    attrs=attrs,
                )
            )
    return [
        *rows,
        case(f"{name}Vars", x, 0.0, 0.0),
        case(f"{name}Vars", unknown(x), unknown(-1.0), unknown(1.0)),
        case(f"{name}Args", x, attrs={"min": 1.0, "max": 0.0}, bad=True),
        case(f"{name}Args", x, attrs={"num_bits": 1}, bad=True),
        case(f"{name}ArgsGradient", x, x, attrs={"num_bits": 17}, bad=True),
        case(f"{name}ArgsGradient", x, unknown(x[:1]), bad=True),
        case(f"{name}Vars", x, 0.0, 1.0, attrs={"num_bits": 17}, bad=True),
        case(f"{name}Vars", x, [0.0], 1.0, bad=True),
        case(f"{name}VarsGradient", x, unknown(x[:1]), 0.0, 1.0, bad=True),
        case(f"{name}VarsPerChannel", x, lows[:3], highs, bad=True),
        case(f"{name}VarsPerChannel", x, unknown(lows[:3]), unknown(highs[:3]), bad=True),
        case(f"{name}VarsPerChannelGradient", x, x, lows[:3], highs, bad=True),
    ]


CASES: list[Case] = [
    *colours(),
    *drawing(),
    *suppression(),
    *patches(),
    *dilation(),
    *local_response(),
    *fake_quantization(),
]
