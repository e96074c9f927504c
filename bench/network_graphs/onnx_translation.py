"""Translates a frozen graph of TensorFlow into ONNX, node by node, for the networks of this benchmark.

Convolutions of ONNX have the channels first, TensorFlow's have them last. A tensor of four dimensions keeps the order in which
it was computed, and is transposed only where an operation needs the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
LAST = np.int64(np.iinfo(np.int64).max)
"""As the end of a slice: the end of the axis."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Value:
    """A tensor of the translation: its name in ONNX, and whether its channels come first."""

    name: str
    channels_first: bool = False


@dataclass
class Translation:
    """The ONNX graph made so far.

    Attributes:
        values: by TensorFlow's name, of the tensors that are computed.
        constants: by TensorFlow's name, of those that are known.
        initializers: the constants that nodes of ONNX use, by their name there.
        dilations: by TensorFlow's name, of tensors that TensorFlow has cut into a batch for a dilated convolution, and that
            stay whole here.
    """

    nodes: list[Any] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    initializers: dict[str, Array] = field(default_factory=dict)
    dilations: dict[str, int] = field(default_factory=dict)
    _transposed: dict[tuple[str, bool], str] = field(default_factory=dict)

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node; return the names of its outputs."""
        names = [f"{op}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant."""
        name = f"constant_{len(self.initializers)}"
        self.initializers[name] = np.asarray(value, dtype, order="C")
        return name

    def known(self, tensor: Any) -> Array:
        """The value of a constant operand."""
        return self.constants[tensor.name]

    def is_first(self, tensor: Any) -> bool:
        return tensor.name in self.values and self.values[tensor.name].channels_first

    def name(self, tensor: Any, channels_first: bool = False) -> str:
        """The name of a tensor in the wanted order."""
        if tensor.name in self.constants:
            known = self.constants[tensor.name]
            return self.constant(known.transpose(TO_FIRST) if channels_first and known.ndim == 4 else known)
        value = self.values[tensor.name]
        if value.channels_first == channels_first:
            return value.name
        key = (tensor.name, channels_first)
        if key not in self._transposed:
            order = TO_FIRST if channels_first else TO_LAST
            (self._transposed[key],) = self.add("Transpose", [value.name], perm=order)
        return self._transposed[key]

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The model; its inputs and outputs have TensorFlow's names."""
        for tensor in outputs:
            self.nodes.append(helper.make_node("Identity", [self.name(tensor)], [tensor.name]))
        types = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32}
        described = [
            [
                helper.make_tensor_value_info(tensor.name, types[tensor.dtype.name], _dimensions(tensor))
                for tensor in tensors
            ]
            for tensors in (inputs, outputs)
        ]
        held = [numpy_helper.from_array(value, name) for name, value in self.initializers.items()]
        graph = helper.make_graph(self.nodes, "network", *described, held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _dimensions(tensor: Any) -> list[Any] | None:
    shape = None if tensor.shape.rank is None else tensor.shape.as_list()
    return shape and [f"d{index}" if size is None else size for index, size in enumerate(shape)]


def translated(tf: Any, graph: Any, outputs: Sequence[Any]) -> Any:
    """The ONNX model of a frozen graph of TensorFlow."""
    translation, inputs = Translation(), []
    for operation in graph.get_operations():  # in the order in which they were made
        if operation.type == "Placeholder":
            inputs.append(operation.outputs[0])
            translation.values[operation.outputs[0].name] = Value(operation.outputs[0].name)
        elif operation.type == "Const":
            translation.constants[operation.outputs[0].name] = tf.make_ndarray(operation.get_attr("value"))
        elif operation.type in ("Identity", "StopGradient"):
            source, target = operation.inputs[0].name, operation.outputs[0].name
            held: dict[str, Any] = (
                translation.constants if source in translation.constants else translation.values
            )
            held[target] = held[source]
        elif operation.type == "ExpandDims" and operation.inputs[0].name in translation.constants:
            value, axis = (translation.constants[tensor.name] for tensor in operation.inputs)
            translation.constants[operation.outputs[0].name] = np.expand_dims(value, int(axis))
        else:
            found = RULES[operation.type](translation, operation)
            values = found if isinstance(found, list) else [found]
            # Where an operation has more outputs, as batch normalisation, the others are not used.
            names = [tensor.name for tensor in operation.outputs][: len(values)]
            translation.values.update(zip(names, values, strict=True))
    return translation.model(inputs, outputs)


Rule = Callable[[Translation, Any], Value | list[Value]]


def _unary(name: str, **attributes: Any) -> Rule:
    def rule(t: Translation, operation: Any) -> Value:
        first = t.is_first(operation.inputs[0])
        return Value(t.add(name, [t.name(operation.inputs[0], first)], **attributes)[0], first)

    return rule


def _chain(*names: str) -> Rule:
    def rule(t: Translation, operation: Any) -> Value:
        first = t.is_first(operation.inputs[0])
        found = t.name(operation.inputs[0], first)
        for name in names:
            (found,) = t.add(name, [found])
        return Value(found, first)

    return rule


def _binary(name: str) -> Rule:
    def rule(t: Translation, operation: Any) -> Value:
        names, first = _aligned(t, operation)
        return Value(t.add(name, names)[0], first)

    return rule


def _aligned(t: Translation, operation: Any) -> tuple[list[str], bool]:
    """The operands of an element-wise operation in one order: channels first if all computed ones of them allow it."""
    inputs = operation.inputs
    computed = [tensor for tensor in inputs if tensor.name in t.values]
    first = any(map(t.is_first, computed)) and all(tensor.shape.rank in (0, 4) for tensor in computed)
    names = []
    for tensor in inputs:
        if first and tensor.name in t.constants and t.known(tensor).ndim == 1:
            names.append(t.constant(t.known(tensor).reshape(-1, 1, 1)))
        else:
            names.append(t.name(tensor, first and tensor.shape.rank == 4))
    return names, first


def _squared_difference(t: Translation, operation: Any) -> Value:
    names, first = _aligned(t, operation)
    (difference,) = t.add("Sub", names)
    return Value(t.add("Mul", [difference, difference])[0], first)


def _square(t: Translation, operation: Any) -> Value:
    first = t.is_first(operation.inputs[0])
    name = t.name(operation.inputs[0], first)
    return Value(t.add("Mul", [name, name])[0], first)


def _relu6(t: Translation, operation: Any) -> Value:
    first = t.is_first(operation.inputs[0])
    limits = [t.constant(np.float32(limit)) for limit in (0, 6)]
    return Value(t.add("Clip", [t.name(operation.inputs[0], first), *limits])[0], first)


def _window(operation: Any) -> dict[str, Any]:
    padding = operation.get_attr("padding").decode()
    return {
        "strides": operation.get_attr("strides")[1:3],
        "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}[padding],
    }


def _convolution(t: Translation, operation: Any) -> Value:
    x, weights = operation.inputs
    filters = t.known(weights)
    group = 1
    if operation.type == "DepthwiseConv2dNative":
        group = filters.shape[2]
        filters = filters.reshape(*filters.shape[:2], 1, -1)
    operands = [t.name(x, channels_first=True), t.constant(filters.transpose(3, 2, 0, 1))]
    dilations = operation.get_attr("dilations")[1:3]
    if x.name in t.dilations:
        dilations = [1, t.dilations[x.name]]
    return Value(t.add("Conv", operands, group=group, dilations=dilations, **_window(operation))[0], True)


def _transposed_convolution(t: Translation, operation: Any) -> Value:
    """Only without padding: strides are the size of the filters."""
    _, weights, x = operation.inputs
    operands = [t.name(x, channels_first=True), t.constant(t.known(weights).transpose(3, 2, 0, 1))]
    return Value(t.add("ConvTranspose", operands, strides=operation.get_attr("strides")[1:3])[0], True)


def _cut_for_dilation(t: Translation, operation: Any) -> Value:
    """What TensorFlow writes around a dilated convolution of one dimension: the convolution is dilated here."""
    x, block, _ = operation.inputs
    t.dilations[operation.outputs[0].name] = int(t.known(block)[0])
    return t.values[x.name]


def _joined_after_dilation(t: Translation, operation: Any) -> Value:
    return t.values[operation.inputs[0].name]


def _pool(name: str) -> Rule:
    def rule(t: Translation, operation: Any) -> Value:
        size = operation.get_attr("ksize")[1:3]
        operand = t.name(operation.inputs[0], channels_first=True)
        return Value(t.add(name, [operand], kernel_shape=size, **_window(operation))[0], True)

    return rule


def _batch_norm(t: Translation, operation: Any) -> Value:
    x, *statistics = operation.inputs
    operands = [t.name(x, channels_first=True), *(t.constant(t.known(each)) for each in statistics)]
    epsilon = operation.get_attr("epsilon")
    return Value(t.add("BatchNormalization", operands, epsilon=epsilon)[0], True)


def _reduction(name: str) -> Rule:
    def rule(t: Translation, operation: Any) -> Value:
        x, axes = operation.inputs
        keeps, first = operation.get_attr("keep_dims"), t.is_first(x)
        reduced = np.atleast_1d(t.known(axes)) % x.shape.rank
        if first and not keeps and set(reduced) != {1, 2}:
            first = False
        if first:
            reduced = np.array([TO_FIRST.index(axis) for axis in reduced])
        attributes: dict[str, Any] = {"keepdims": int(keeps)}
        operands = [t.name(x, first)]
        if name == "ReduceSum":
            operands.append(t.constant(reduced, np.int64))
        else:
            attributes["axes"] = reduced.tolist()
        return Value(t.add(name, operands, **attributes)[0], first and keeps)

    return rule


def _pad(t: Translation, operation: Any) -> Value:
    x, paddings = operation.inputs
    first, amounts = t.is_first(x), t.known(paddings)
    if first:
        amounts = amounts[list(TO_FIRST)]
    return Value(t.add("Pad", [t.name(x, first), t.constant(amounts.T.ravel(), np.int64)])[0], first)


def _product(t: Translation, operation: Any) -> Value:
    is_matrix = operation.type == "MatMul"
    names = []
    for tensor, attribute in zip(operation.inputs, ("transpose_a", "transpose_b"), strict=True):
        if not operation.get_attr(attribute if is_matrix else f"adj_{'xy'[attribute == 'transpose_b']}"):
            names.append(t.name(tensor))
        elif tensor.name in t.constants:
            names.append(t.constant(t.known(tensor).swapaxes(-1, -2)))
        else:
            rank = tensor.shape.rank
            order = [*range(rank - 2), rank - 1, rank - 2]
            names += t.add("Transpose", [t.name(tensor)], perm=order)
    return Value(t.add("MatMul", names)[0])


def _integers(t: Translation, tensor: Any) -> str:
    """A tensor of sizes or positions, as int64."""
    if tensor.name in t.constants:
        return t.constant(np.atleast_1d(t.known(tensor)), np.int64)
    return t.add("Cast", [t.name(tensor)], to=onnx.TensorProto.INT64)[0]


def _reshape(t: Translation, operation: Any) -> Value:
    x, shape = operation.inputs
    return Value(t.add("Reshape", [t.name(x), _integers(t, shape)])[0])


def _shape(t: Translation, operation: Any) -> Value:
    (sizes,) = t.add("Shape", [t.name(operation.inputs[0])])
    return Value(t.add("Cast", [sizes], to=onnx.TensorProto.INT32)[0])


def _pack(t: Translation, operation: Any) -> Value:
    axis = t.constant([operation.get_attr("axis")], np.int64)
    parts = [t.add("Unsqueeze", [t.name(tensor), axis])[0] for tensor in operation.inputs]
    return Value(t.add("Concat", parts, axis=operation.get_attr("axis"))[0])


def _transpose(t: Translation, operation: Any) -> Value:
    x, order = operation.inputs
    return Value(t.add("Transpose", [t.name(x)], perm=t.known(order).tolist())[0])


def _concat(t: Translation, operation: Any) -> Value:
    *parts, axis = operation.inputs
    first = any(map(t.is_first, parts))
    along = int(t.known(axis)) % parts[0].shape.rank
    names = [t.name(part, first) for part in parts]
    return Value(t.add("Concat", names, axis=TO_FIRST.index(along) if first else along)[0], first)


def _split(t: Translation, operation: Any) -> list[Value]:
    axis, x = operation.inputs
    along = int(t.known(axis)) % x.shape.rank
    return [Value(name) for name in t.add("Split", [t.name(x)], len(operation.outputs), axis=along)]


def _unpack(t: Translation, operation: Any) -> list[Value]:
    axis = operation.get_attr("axis") % operation.inputs[0].shape.rank
    count = len(operation.outputs)
    parts = t.add("Split", [t.name(operation.inputs[0])], count, axis=axis)
    axes = t.constant([axis], np.int64)
    return [Value(t.add("Squeeze", [part, axes])[0]) for part in parts]


def _gather(t: Translation, operation: Any) -> Value:
    table, rows, axis = operation.inputs
    return Value(t.add("Gather", [t.name(table), t.name(rows)], axis=int(t.known(axis)))[0])


def _one_hot(t: Translation, operation: Any) -> Value:
    indices, depth, on, off = operation.inputs
    levels = np.array([t.known(off), t.known(on)], np.float32)
    operands = [_integers(t, indices), t.constant(t.known(depth), np.int64), t.constant(levels)]
    return Value(t.add("OneHot", operands)[0])


def _slice(t: Translation, operation: Any) -> Value:
    x, begin, size = operation.inputs
    starts, sizes = t.known(begin), t.known(size)
    ends = np.where(sizes < 0, LAST, starts + sizes)
    bounds = [t.constant(each, np.int64) for each in (starts, ends, np.arange(len(starts)))]
    return Value(t.add("Slice", [t.name(x), *bounds])[0])


def _strided_slice(t: Translation, operation: Any) -> Value:
    """Only with bounds that are known, and without ellipsis and new axes."""
    x, begin, end, strides = operation.inputs
    begin_mask, end_mask, shrink = (
        operation.get_attr(name) for name in ("begin_mask", "end_mask", "shrink_axis_mask")
    )
    axes = np.arange(len(t.known(begin)))
    starts = np.where(begin_mask >> axes & 1, 0, t.known(begin))
    ends = np.where(end_mask >> axes & 1, LAST, t.known(end))
    is_single = (shrink >> axes & 1).astype(bool)
    ends = np.where(is_single, np.where(starts == -1, LAST, starts + 1), ends)
    bounds = [t.constant(each, np.int64) for each in (starts, ends, axes, t.known(strides))]
    (found,) = t.add("Slice", [t.name(x), *bounds])
    if is_single.any():
        (found,) = t.add("Squeeze", [found, t.constant(axes[is_single], np.int64)])
    return Value(found)


def _squeeze(t: Translation, operation: Any) -> Value:
    axes = t.constant(operation.get_attr("squeeze_dims"), np.int64)
    return Value(t.add("Squeeze", [t.name(operation.inputs[0]), axes])[0])


def _expand_dims(t: Translation, operation: Any) -> Value:
    x, axis = operation.inputs
    if x.name in t.dilations:
        t.dilations[operation.outputs[0].name] = t.dilations[x.name]
    return Value(t.add("Unsqueeze", [t.name(x), _integers(t, axis)])[0])


def _cast(t: Translation, operation: Any) -> Value:
    to = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32}[operation.outputs[0].dtype.name]
    return Value(t.add("Cast", [t.name(operation.inputs[0])], to=to)[0])


RULES: dict[str, Rule] = {
    "Relu": _unary("Relu"),
    "Tanh": _unary("Tanh"),
    "Sigmoid": _unary("Sigmoid"),
    "Erf": _unary("Erf"),
    "Exp": _unary("Exp"),
    "Neg": _unary("Neg"),
    "Relu6": _relu6,
    "Rsqrt": _chain("Sqrt", "Reciprocal"),
    "Square": _square,
    "Softmax": lambda t, operation: Value(t.add("Softmax", [t.name(operation.inputs[0])], axis=-1)[0]),
    "AddV2": _binary("Add"),
    "Sub": _binary("Sub"),
    "Mul": _binary("Mul"),
    "RealDiv": _binary("Div"),
    "Pow": _binary("Pow"),
    "Maximum": _binary("Max"),
    "SquaredDifference": _squared_difference,
    "BiasAdd": _binary("Add"),
    "Conv2D": _convolution,
    "Conv2DBackpropInput": _transposed_convolution,
    "SpaceToBatchND": _cut_for_dilation,
    "BatchToSpaceND": _joined_after_dilation,
    "DepthwiseConv2dNative": _convolution,
    "FusedBatchNormV3": _batch_norm,
    "MaxPool": _pool("MaxPool"),
    "AvgPool": _pool("AveragePool"),
    "Mean": _reduction("ReduceMean"),
    "Sum": _reduction("ReduceSum"),
    "Max": _reduction("ReduceMax"),
    "Split": _split,
    "Unpack": _unpack,
    "Pad": _pad,
    "MatMul": _product,
    "BatchMatMulV2": _product,
    "Reshape": _reshape,
    "Shape": _shape,
    "Pack": _pack,
    "Transpose": _transpose,
    "ConcatV2": _concat,
    "GatherV2": _gather,
    "OneHot": _one_hot,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Squeeze": _squeeze,
    "ExpandDims": _expand_dims,
    "Cast": _cast,
}
"""How an operation is translated: its outputs, or the first of them."""
