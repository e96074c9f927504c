"""Programs of softmax, cross-entropy, layer and batch normalisation: reductions, and elementwise kernels with their results.

16-bit values are computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full, spread, wide
from aioexec.devices.cuda.programs.reducing import LARGEST, SUM
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View

X = Operand("input", 0)


class Rows:
    """Logits as rows of classes: adds the maximum of each row, and the sum of the exponentials of what exceeds it.

    Attributes:
        x, largest, total: the logits and these numbers, as views of [rows, n].
    """

    def __init__(self, program: Program, x: View, shape: tuple[int, int]) -> None:
        self.program, self.x, self.shape = program, x, shape
        self.kind = wide(x.dtype)
        rows = shape[:1]
        largest, total = program.space(self.kind, rows), program.space(self.kind, rows)
        self.largest, self.total = (
            View(each.operand, self.kind, (*each.strides, 0)) for each in (largest, total)
        )
        find = Reduction(
            f"z = cast(x, {self.kind!r})",
            LARGEST,
            "y = c",
            (("x", x.dtype),),
            self.kind,
            self.kind,
            float("-inf"),
        )
        program.reduce(find, [x], largest, shape, {1})
        add = Reduction(
            f"w = cast(x, {self.kind!r}); z = exp(w - m)",
            SUM,
            "y = c",
            (("x", x.dtype), ("m", self.kind)),
            self.kind,
            self.kind,
            0.0,
        )
        program.reduce(add, [x, self.largest], total, shape, {1})

    def each(self, result: str, output: View, *others: tuple[str, View]) -> None:
        """Add an elementwise kernel: `e` is what a logit exceeds the maximum by, `s` the sum of exponentials."""
        body = f"w = cast(x, {self.kind!r}); e = w - m; r = {result}; y = cast(r, {output.dtype!r})"
        inputs = [("x", self.x), ("m", self.largest), ("s", self.total)]
        self.program.elementwise(body, [*inputs, *others], [("y", output)], self.shape)


def matrix(shape: Sequence[int]) -> tuple[int, int]:
    """All dimensions but the last as one."""
    return prod(shape[:-1]), shape[-1]


def softmax(result: str) -> Binder:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        x = inputs[0]
        if not x.shape:
            return None
        shape, dtype, program = matrix(x.shape), x.dtype.name, Program()
        Rows(program, full(X, dtype, shape), shape).each(result, full(OUTPUT, dtype, shape))
        return program

    return bind


def bind_cross_entropy(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """Loss: the sum of labels times minus the log of softmax. Backprop: softmax minus labels."""
    rows, _ = shape = outputs[1].shape[0], outputs[1].shape[1]
    dtype, program = outputs[1].dtype.name, Program()
    x, labels = (spread(Operand("input", k), dtype, inputs[k].shape, shape) for k in (0, 1))
    parts = Rows(program, x, shape)
    kind = parts.kind
    add = Reduction(
        f"w = cast(x, {kind!r}); l = cast(labels, {kind!r}); p = l * (log(s) - (w - m)); z = where(l == 0, 0.0, p)",
        SUM,
        f"y = cast(c, {dtype!r})",
        (("x", dtype), ("labels", dtype), ("m", kind), ("s", kind)),
        kind,
        dtype,
        0.0,
    )
    program.reduce(add, [x, labels, parts.largest, parts.total], full(OUTPUT, dtype, (rows,)), shape, {1})
    backprop = full(Operand("output", 1), dtype, shape)
    parts.each(f"exp(e) / s - cast(l, {kind!r})", backprop, ("l", labels))
    return program


def bind_sparse_cross_entropy(
    attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Program | None:
    """The same with a class instead of a row of labels; the loss of a class that does not exist is NaN."""
    rows, _ = shape = outputs[1].shape[0], outputs[1].shape[1]
    dtype, program = outputs[1].dtype.name, Program()
    x = full(X, dtype, shape)
    label = View(Operand("input", 1), inputs[1].dtype.name, (inputs[1].dtype.itemsize, 0))
    parts = Rows(program, x, shape)
    kind = parts.kind
    pick = Reduction(
        f"w = cast(x, {kind!r}); p = log(s) - (w - m); z = where(position == cast(l, 'int64'), p, nan)",
        "c = where(is_nan(a), b, a)",
        f"y = cast(c, {dtype!r})",
        (("x", dtype), ("l", label.dtype), ("m", kind), ("s", kind)),
        kind,
        dtype,
        float("nan"),
    )
    program.reduce(pick, [x, label, parts.largest, parts.total], full(OUTPUT, dtype, (rows,)), shape, {1})
    backprop = full(Operand("output", 1), dtype, shape)
    parts.each("exp(e) / s - where(at1 == cast(l, 'int64'), like(w, 1.0), 0.0)", backprop, ("l", label))
    return program


def moment(
    value: str, inputs: Sequence[tuple[str, str]], kind: str, result: str = "c / cast(count, 'float64')"
) -> Reduction:
    """The mean of an expression, or what `result` makes of its sum, which is float64 as in the reference kernels."""
    return Reduction(
        f"v = {value}; z = cast(v, 'float64')",
        SUM,
        f"d = {result}; y = cast(d, {kind!r})",
        tuple(inputs),
        "float64",
        kind,
        0.0,
    )


def bind_layer_norm(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """Mean and variance of each row of the sum of the terms, then scale and shift."""
    *terms, scale, shift = inputs
    out = outputs[0]
    if not out.shape:
        return None
    dtype, program, axes = out.dtype.name, Program(), {len(out.shape) - 1}
    names = [f"x{k}" for k in range(len(terms))]
    views = [spread(Operand("input", k), dtype, term.shape, out.shape) for k, term in enumerate(terms)]
    total = " + ".join(names)
    rows = out.shape[:-1]
    mean, variance = program.space(dtype, rows), program.space(dtype, rows)
    means, variances = (View(each.operand, dtype, (*each.strides, 0)) for each in (mean, variance))
    kinds = [(name, dtype) for name in names]
    program.reduce(moment(total, kinds, dtype), views, mean, out.shape, axes)
    square = moment(f"square({total} - m)", [*kinds, ("m", dtype)], dtype)
    program.reduce(square, [*views, means], variance, out.shape, axes)
    vectors = [
        spread(Operand("input", len(terms) + k), dtype, spec.shape, out.shape)
        for k, spec in enumerate((scale, shift))
    ]
    named = [*zip(names, views, strict=True), ("m", means), ("v", variances)]
    program.elementwise(
        f"y = ({total} - m) * (a / sqrt(v + {attrs['epsilon']!r})) + b",
        [*named, ("a", vectors[0]), ("b", vectors[1])],
        [("y", full(OUTPUT, dtype, out.shape))],
        out.shape,
    )
    return program


class Channels:
    """The layout of batch normalisation: images, and vectors with an element for each channel."""

    def __init__(self, attrs: Attrs, x: Spec) -> None:
        self.shape, rank = x.shape, len(x.shape)
        self.axis = 1 if attrs["data_format"].startswith("NC") else rank - 1
        self.channels = (x.shape[self.axis],)
        self.axes = frozenset(range(rank)) - {self.axis}
        self.elements = prod(x.shape) // max(self.channels[0], 1)

    def image(self, operand: Operand, dtype: str) -> View:
        return full(operand, dtype, self.shape)

    def vector(self, operand: Operand, dtype: str) -> View:
        """A vector as an image."""
        (stride,) = full(operand, dtype, self.channels).strides
        return View(operand, dtype, tuple(stride if k == self.axis else 0 for k in range(len(self.shape))))


def bind_batch_norm(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """Moments of the batch, or the given ones; the running averages; then the normalised image."""
    x, vectors, program = inputs[0], outputs[1].dtype.name, Program()
    dtype, at = x.dtype.name, Channels(attrs, x)
    if not at.elements or vectors != "float32":
        return None
    count = at.elements
    image = at.image(X, dtype)
    places = [full(Operand("output", k), "float32", at.channels) for k in range(5)]
    given = [full(Operand("input", k), "float32", at.channels) for k in range(5)]
    if attrs["is_training"]:
        program.reduce(moment("x", [("x", dtype)], "float32"), [image], places[3], at.shape, at.axes)
        mean = at.vector(places[3].operand, "float32")
        square = moment("square(cast(x, 'float32') - m)", [("x", dtype), ("m", "float32")], "float32")
        program.reduce(square, [image, mean], places[4], at.shape, at.axes)
        factor = attrs["exponential_avg_factor"]
        unbiased = f"v * {count / max(count - 1, 1)!r}"
        keep = "" if factor == 1.0 else f"{1 - factor!r} * old + {factor!r} * "
        for k, value in ((1, "v"), (2, unbiased)):
            olds = [] if factor == 1.0 else [("old", given[k + 2])]
            body = f"y = {value}" if factor == 1.0 else f"y = {keep}({value})"
            program.elementwise(body, [("v", places[k + 2]), *olds], [("y", places[k])], at.channels)
    else:
        for k in (1, 2, 3, 4):
            program.elementwise("y = v", [("v", given[3 + (k - 1) % 2])], [("y", places[k])], at.channels)
    used = [at.vector(places[k].operand, "float32") for k in (3, 4)]
    program.elementwise(
        f"w = cast(x, 'float32'); r = (w - m) * (a / sqrt(v + {attrs['epsilon']!r})) + b; y = cast(r, {dtype!r})",
        [
            ("x", image),
            ("m", used[0]),
            ("v", used[1]),
            ("a", at.vector(Operand("input", 1), "float32")),
            ("b", at.vector(Operand("input", 2), "float32")),
        ],
        [("y", at.image(OUTPUT, dtype))],
        at.shape,
    )
    if len(outputs) > 5:
        program.zeros(outputs[5], Operand("output", 5))
    return program


def bind_batch_norm_gradient(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """Sums of the gradient, and of it times the centred image; then the gradient of the image."""
    x, program = inputs[1], Program()
    dtype, at = x.dtype.name, Channels(attrs, x)
    if not at.elements:
        return None
    above, image = at.image(X, dtype), at.image(Operand("input", 1), dtype)
    mean, variance = (at.vector(Operand("input", k), "float32") for k in (3, 4))
    d_scale, d_offset = (full(Operand("output", k), "float32", at.channels) for k in (1, 2))
    products = program.space("float32", at.channels)
    program.reduce(moment("dy", [("dy", dtype)], "float32", "c"), [above], d_offset, at.shape, at.axes)
    along = moment(
        "cast(dy, 'float32') * (cast(x, 'float32') - m)",
        [("dy", dtype), ("x", dtype), ("m", "float32")],
        "float32",
        "c",
    )
    program.reduce(along, [above, image, mean], products, at.shape, at.axes)
    epsilon = f"{attrs['epsilon']!r}"
    program.elementwise(
        f"y = p * (1.0 / sqrt(v + {epsilon}))",
        [("p", products), ("v", full(Operand("input", 4), "float32", at.channels))],
        [("y", d_scale)],
        at.channels,
    )
    named = [
        ("dy", above),
        ("v", variance),
        ("a", at.vector(Operand("input", 2), "float32")),
    ]
    centred = "cast(dy, 'float32')"
    if attrs["is_training"]:
        part = f"{1 / at.elements!r}"
        centred = f"cast(dy, 'float32') - s * {part} - (cast(x, 'float32') - m) * (r * r * p * {part})"
        named += [
            ("x", image),
            ("m", mean),
            ("s", at.vector(d_offset.operand, "float32")),
            ("p", at.vector(products.operand, "float32")),
        ]
    program.elementwise(
        f"r = 1.0 / sqrt(v + {epsilon}); d = ({centred}) * (a * r); y = cast(d, {dtype!r})",
        named,
        [("y", at.image(OUTPUT, dtype))],
        at.shape,
    )
    return program


BINDERS: dict[str, Binder] = {
    "Softmax": softmax("exp(e) / s"),
    "LogSoftmax": softmax("e - log(s)"),
    "SoftmaxCrossEntropyWithLogits": bind_cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": bind_sparse_cross_entropy,
    "_LayerNorm": bind_layer_norm,
    **{f"FusedBatchNorm{version}": bind_batch_norm for version in ("", "V2", "V3")},
    **{f"FusedBatchNormGrad{version}": bind_batch_norm_gradient for version in ("", "V2", "V3")},
}
