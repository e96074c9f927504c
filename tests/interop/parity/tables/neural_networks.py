"""Ops of neural networks: activations, softmax, losses, biases, top-k, batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import FLOATS, SHAPES, plain_dtypes, sample, unary
from tests.interop.parity.table import Case, case, const, partly, unknown

SHORT: dict[str, Any] = {"tolerance": 8.0, "note": "computed in the short type there, in float32 here"}


def rough(dtype: str) -> dict[str, Any]:
    return SHORT if dtype in ("float16", "bfloat16") else {}


# Activations


def slopes(op: str, attrs: dict[str, Any] | None = None) -> list[Case]:
    """An op that multiplies a gradient by a derivative."""
    rows = [
        case(op, sample(name, (3, 4), 1), sample(name, (3, 4), 2), attrs=attrs, **rough(name))
        for name in plain_dtypes(op)
    ]
    rows += [
        case(op, sample("float32", shape, 3), sample("float32", shape, 4), attrs=attrs) for shape in SHAPES
    ]
    x = sample("float32", (2, 3), 5)
    return [
        *rows,
        case(op, unknown(x), unknown(x), attrs=attrs),
        case(op, x, x[:1], attrs=attrs, bad=True),
        case(op, unknown(x), unknown(x[:1]), attrs=attrs, bad=True),
    ]


NAMES = ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu")
MODERATE = (0.0, 1.0, -1.0, 6.0, 7.0, 30.0, -30.0)

ACTIVATIONS = [
    *(row for name in NAMES for row in unary(name, special=MODERATE)),
    *(row for name in NAMES for row in slopes(f"{name}Grad")),
    *(case("LeakyRelu", sample("float32", (3, 4)), attrs={"alpha": alpha}) for alpha in (0.0, 0.5, -0.1)),
    *slopes("LeakyReluGrad", {"alpha": 0.5}),
]

# Softmax and losses


def softmaxes() -> list[Case]:
    rows = []
    for op in ("Softmax", "LogSoftmax"):
        rows += [case(op, sample(name, (3, 5), 1), **rough(name)) for name in FLOATS]
        rows += [
            case(op, sample("float32", shape, 2))
            for shape in ((4,), (0, 3), (2, 3, 4), (1, 1), (2, 0), (5, 40))
        ]
        rows += [
            case(op, np.array([[1000.0, -1000.0, 0.0], [88.0, 89.0, 90.0]], np.float32), grad=False),
            case(op, unknown(sample("float32", (2, 3)))),
            case(op, np.float32(1.0), bad=True),
            case(op, sample("int32", (2, 3)), bad=True),
        ]
    return rows


def dense_losses() -> list[Case]:
    op, rows = "SoftmaxCrossEntropyWithLogits", []

    def row(name: str, a: Any, b: Any, **options: Any) -> Case:
        return case(op, sample(name, a, 1), sample(name, b, 2, 0.0, 1.0), differentiated=(0,), **options)

    rows += [row(name, (4, 5), (4, 5), **rough(name)) for name in FLOATS]
    rows += [
        row("float32", a, b)
        for a, b in (((4, 5), (1, 5)), ((4, 1), (4, 5)), ((1, 5), (4, 5)), ((0, 3), (0, 3)), ((1, 1), (1, 1)))
    ]
    x, p = sample("float32", (3, 4), 1), sample("float32", (3, 4), 2, 0.0, 1.0)
    return [
        *rows,
        case(op, x, p),
        case(op, unknown(x), unknown(p), differentiated=(0,)),
        case(op, x, p[:, :3], bad=True),
        case(op, unknown(x), unknown(p[:, :3]), bad=True),
        case(op, x[0], p[0], bad=True),
    ]


def sparse_losses() -> list[Case]:
    op = "SparseSoftmaxCrossEntropyWithLogits"
    x = sample("float32", (4, 5), 1)
    rows = [
        case(op, sample(name, (4, 5), 1), np.array([0, 4, 2, 2], label), differentiated=(0,), **rough(name))
        for name in FLOATS
        for label in ("int32", "int64")
    ]
    return [
        *rows,
        case(op, x[:0], np.zeros(0, np.int64), differentiated=(0,)),
        case(op, x[:1], [3], differentiated=(0,)),
        case(op, unknown(x), unknown([0, 1, 2, 3]), differentiated=(0,)),
        case(op, x, [0, 1, 2], bad=True),
        case(op, unknown(x), unknown([0, 1, 2]), bad=True),
        case(op, x, [0, 1, 2, 5], bad=True),
        case(op, x, [0, -1, 2, 3], bad=True),
        case(op, x[0], 1, bad=True),
    ]


# Biases, best classes, norms


def biases() -> list[Case]:
    rows: list[Case] = []
    x = sample("float32", (2, 3, 4, 5), 1)
    for name in plain_dtypes("BiasAdd"):
        rows.append(case("BiasAdd", sample(name, (2, 3), 1), sample(name, (3,), 2)))
        rows.append(case("BiasAddGrad", sample(name, (2, 3), 1)))
    for shape in ((2, 5), (0, 5), (2, 3, 5), (2, 3, 4, 5), (1, 2, 2, 2, 5)):
        rows.append(case("BiasAdd", sample("float32", shape, 3), sample("float32", (5,), 4)))
        rows.append(case("BiasAddGrad", sample("float32", shape, 3)))
    nchw = {"data_format": "NCHW"}
    return [
        *rows,
        case("BiasAdd", x, sample("float32", (3,), 4), attrs=nchw),
        case("BiasAddGrad", x, attrs=nchw),
        case("BiasAdd", unknown(x), unknown(sample("float32", (5,), 4))),
        case("BiasAddGrad", unknown(x)),
        case("BiasAdd", x, sample("float32", (4,), 4), bad=True),
        case("BiasAdd", unknown(x), unknown(sample("float32", (4,), 4)), bad=True),
        case("BiasAdd", x[0, 0, 0], x[0, 0, 0], bad=True),
        case("BiasAddGrad", x[0, 0, 0], bad=True),
    ]


def l2_losses() -> list[Case]:
    return [
        *(case("L2Loss", sample(name, (3, 4), 1), **rough(name)) for name in FLOATS),
        *(case("L2Loss", sample("float32", shape, 2)) for shape in SHAPES),
        case("L2Loss", unknown(sample("float32", (2, 3)))),
        case("L2Loss", sample("int32", (2, 3)), bad=True),
    ]


def best_classes() -> list[Case]:
    predictions = sample("float32", (6, 5), 1)
    predictions[3, 2] = predictions[3, 4]
    predictions[4, 1], predictions[5, 0] = np.nan, np.inf
    targets = [0, 1, 2, 4, 3, 2]
    rows: list[Case] = []
    for k in (0, 1, 2, 3, 5, 9):
        for dtype in ("int32", "int64"):
            rows.append(case("InTopK", predictions, np.array(targets, dtype), attrs={"k": k}))
            rows.append(case("InTopKV2", predictions, np.array(targets, dtype), np.array(k, dtype)))
    rows += [
        case("InTopK", predictions[:0], np.zeros(0, np.int32), attrs={"k": 1}),
        case("InTopK", predictions, [0, 1, 7, -1, 3, 2], attrs={"k": 1}),
        case("InTopK", predictions, targets[:2], attrs={"k": 1}, bad=True),
        case("InTopK", predictions[0], targets, attrs={"k": 1}, bad=True),
        case("InTopKV2", predictions, targets[:2], 1, bad=True),
    ]
    for name in plain_dtypes("TopKV2"):
        rows.append(case("TopKV2", sample(name, (3, 6), 2, -50, 50), const(2)))
    x = sample("float32", (3, 6), 2)
    rows += [case("TopKV2", x, const(k)) for k in (0, 1, 6)]
    rows += [case("TopKV2", sample("float32", shape, 3), const(1)) for shape in ((4,), (2, 1, 3), (0, 2))]
    return [
        *rows,
        case("TopKV2", [1.0, 3.0, 3.0, 2.0, 3.0], const(4), grad=False),
        case("TopKV2", x, const(2), attrs={"sorted": False}, compared=(), grad=False, note="in any order"),
        case("TopKV2", x, 2),
        case("TopKV2", unknown(x), unknown(2)),
        case("TopKV2", x, const(7), bad=True),
        case("TopKV2", x, -1, bad=True),
        case("TopKV2", 1.0, const(1), bad=True),
    ]


# Batch normalisation


LOOSE: dict[str, Any] = {"tolerance": 32.0, "note": "sums in another order; the third reserve means nothing"}


def vectors(count: int) -> list[Any]:
    return [sample("float32", (count,), 3 + k, 0.5, 2.0) for k in range(4)]


def normalisation(version: str) -> list[Case]:
    op = f"FusedBatchNorm{version}"
    x, few, empty = sample("float32", (2, 3, 4, 3), 1), vectors(3), np.zeros(0, np.float32)

    def row(x: Any, *given: Any, known: int = 5, **options: Any) -> Case:
        return case(op, x, *given, compared=range(known), differentiated=(0,), **{**LOOSE, **options})

    rows: list[Case] = []
    for data_format in ("NHWC", "NCHW") + (("NDHWC", "NCDHW") if version == "V3" else ()):
        image = x if len(data_format) == 4 else sample("float32", (2, 2, 3, 2, 3), 1)
        count = image.shape[data_format.index("C")]
        rows += [
            row(
                image,
                *vectors(count),
                attrs={"data_format": data_format, "is_training": training},
                known=5 if training else 3,  # the reserves are for training
                grad=training or data_format.endswith("C"),  # for the others TensorFlow has no kernel
            )
            for training in (True, False)
        ]
    averaging = [{"exponential_avg_factor": factor, "epsilon": 0.01} for factor in (0.25, 0.9)]
    rows += [row(x, *few, attrs=attrs) for attrs in averaging]
    short = plain_dtypes(op)[1:] if version else ()
    rows += [row(sample(name, x.shape, 1), *few, **SHORT) for name in short]
    return [
        *rows,
        row(x[:, :1, :1], few[0], few[1], empty, empty),
        row(x[..., :1], *vectors(1)),
        row(x[:0], *few, known=3, grad=False),  # the rest is not set there
        row(unknown(x), *map(unknown, few)),
        row(x[0], *few, bad=True),
        row(x, *vectors(2), bad=True),
        row(unknown(x), *map(unknown, vectors(2)), bad=True),
        row(x, few[0], few[1], empty, empty, attrs={"is_training": False}, bad=True),
    ]


def normalisation_gradient(version: str) -> list[Case]:
    op = f"FusedBatchNormGrad{version}"
    reserve = [np.zeros((), np.float32)] if version == "V3" else []
    x, dy = sample("float32", (2, 3, 4, 3), 1), sample("float32", (2, 3, 4, 3), 9)
    few = vectors(3)[:3]

    def row(*given: Any, **options: Any) -> Case:
        return case(op, *given, *reserve, differentiated=(0, 1, 2), **{**LOOSE, **options})

    rows: list[Case] = []
    for data_format in ("NHWC", "NCHW") + (("NDHWC", "NCDHW") if version == "V3" else ()):
        image = x if len(data_format) == 4 else sample("float32", (2, 2, 3, 2, 3), 1)
        axis = data_format.index("C")
        over = tuple(k for k in range(image.ndim) if k != axis)
        given = [sample("float32", image.shape, 9), image, vectors(image.shape[axis])[0]]
        for training in (True, False) if data_format.endswith("C") else (True,):
            attrs = {"data_format": data_format, "is_training": training}
            rows.append(row(*given, image.mean(over), image.var(over), attrs=attrs))
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    for name in plain_dtypes(op)[1:] if version else ():
        short = sample(name, x.shape, 9), sample(name, x.shape, 1)
        rows.append(row(*short, few[0], mean, variance, grad=False, **SHORT))
    return [
        *rows,
        *(row(dy, x, few[0], mean, variance, attrs={"epsilon": epsilon}) for epsilon in (0.1, 0.01, 0.001)),
        row(unknown(dy), unknown(x), few[0], mean, variance),
        row(partly(dy, [None] * 4), partly(x, [None] * 3 + [3]), few[0], mean, variance),
        row(dy[:1], x[:1], few[0], x[:1].mean((0, 1, 2)), x[:1].var((0, 1, 2))),
        row(x[:0], x[:0], *few, grad=False),
        row(x, x[:1], *few, bad=True),
        row(unknown(x), unknown(x[:1]), *few, bad=True),
        row(unknown(x), unknown(x), *map(unknown, vectors(2)[:3]), bad=True),
        row(x, x, *vectors(2)[:3], bad=True),
    ]


CASES: list[Case] = [
    *ACTIVATIONS,
    *softmaxes(),
    *dense_losses(),
    *sparse_losses(),
    *biases(),
    *l2_losses(),
    *best_classes(),
    *(
        row
        for version in ("", "V2", "V3")
        for row in (*normalisation(version), *normalisation_gradient(version))
    ),
]
