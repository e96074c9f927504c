"""Properties of a call, as predicates for `accepted_differences`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.campaigns.operand_calls import CONSTANT, Call, Leaf, all_calls


def operands(call: Call) -> list[np.ndarray[Any, Any]]:
    """The values among the operands: no variables, no outputs of other calls."""
    return [each.value for each in call.operands() if isinstance(each, Leaf)]


def has(name: str, *values: Any) -> Callable[[Call], bool]:
    """Whether an attribute has one of these values."""
    return lambda call: call.attrs.get(name) in values


def has_empty_operand(call: Call) -> bool:
    return any(value.size == 0 for value in operands(call))


def has_size(call: Call, size: int) -> bool:
    """Whether a vector among the operands, of the sizes of a tensor, has this one."""
    return any(value.dtype == np.int32 and size in value for value in operands(call))


def has_denormals(call: Call) -> bool:
    """Whether a number is so small that TensorFlow's kernels take it for zero."""
    return any(
        value.dtype.kind == "f" and ((value != 0) & (np.abs(value) < np.finfo(value.dtype).tiny)).any()
        for value in operands(call)
    )


def has_tiny_count(call: Call) -> bool:
    """Whether the count of steps of a range, of which the operands are begin, end and step, is below the normal numbers."""
    begin, end, step = (float(np.abs(each).max(initial=0)) for each in operands(call)[:3])
    return 0 < (begin + end) / max(step, 1.0) < float(np.finfo(np.float64).tiny)


def windows(call: Call) -> list[list[int]]:
    """The sizes, strides and dilations of windows: attributes, or the last two operands."""
    names = [name for name in ("ksize", "strides", "dilations") if name in call.attrs]
    given = [list(call.attrs[name]) for name in names]
    return given or [each.reshape(-1).tolist() for each in operands(call)[-2:]]


def has_windows_along_channels(call: Call) -> bool:
    """Whether windows have more than one channel or stride along them."""
    channels = 1 if call.attrs.get("data_format", "NHWC").startswith("NC") else -1
    return any(sizes[channels:][:1] != [1] for sizes in windows(call))


def has_dilations(call: Call) -> bool:
    return set(call.attrs.get("dilations", ())) - {1} != set()


def has_infinite_or_nan(call: Call) -> bool:
    return any(value.dtype.kind in "fc" and not np.isfinite(value).all() for value in operands(call))


def has_both_zeros(call: Call) -> bool:
    """Whether there are 0 and -0 among operands of 16 bits."""
    given = [each.reshape(-1).astype(np.float32) for each in operands(call) if each.dtype.itemsize == 2]
    signs = np.concatenate([np.signbit(each[each == 0]) for each in given] or [np.zeros(0, bool)])
    return len(set(signs.tolist())) == 2


def has_deeper_gradient(call: Call) -> bool:
    """Whether the operand `grad` has more dimensions than the variable, the first operand."""
    names = [arg.name for arg in call.definition.inputs]
    variable, gradient = call.arguments[0], call.arguments[names.index("grad")]
    initial = variable.call.initial
    return initial is not None and isinstance(gradient, Leaf) and gradient.value.ndim > initial.ndim


def has_zero_byte(call: Call) -> bool:
    return any(
        b"\0" in each for value in operands(call) if value.dtype == object for each in value.reshape(-1)
    )


def has_odd_names(call: Call) -> bool:
    """Whether the names of saved tensors, the second operand, or their slices, are no vectors, or no UTF-8."""
    names = [value for value in operands(call)[1:3] if value.dtype == object]
    return any(value.ndim != 1 or any(map(_is_no_text, value)) for value in names)


def _is_no_text(name: bytes) -> bool:
    return "\ufffd" in name.decode(errors="replace")


def has_unlike_shapes(call: Call) -> bool:
    return len({value.shape for value in operands(call)}) > 1


def has_unlike_numbers(call: Call) -> bool:
    """Whether one of several sparse tensors, the first of the lists of operands, has other indices than values."""
    pairs = zip(call.arguments[0], call.arguments[1], strict=False)
    return any(one.value.shape[:1] != other.value.shape[:1] for one, other in pairs)


def has_vector_of_indices(call: Call) -> bool:
    indices = call.arguments[[arg.name for arg in call.definition.inputs].index("indices")]
    return isinstance(indices, Leaf) and indices.value.ndim == 1


def has_odd_windows(call: Call) -> bool:
    """Whether windows are both along batch or channels and not all positive."""
    given = windows(call)
    is_odd = any(size <= 0 for sizes in given for size in sizes)
    return is_odd and any([*sizes[:1], *sizes[-1:]] != [1, 1] for sizes in given)


def has_odd_rank(call: Call) -> bool:
    """Whether images or filters, or the vectors of their sizes, have another rank than the strides."""
    ranks = {each.size if each.dtype == np.int32 and each.ndim == 1 else each.ndim for each in operands(call)}
    return ranks != {len(call.attrs.get("strides", "NHWC"))}


def has_odd_records(call: Call) -> bool:
    """Whether no file has records of such sizes, or of this encoding."""
    sizes = [call.attrs.get(f"{name}_bytes", 0) for name in ("header", "footer", "hop")]
    return min(call.attrs["record_bytes"] - 1, *sizes) < 0 or call.attrs.get("encoding", "") not in (
        "",
        "ZLIB",
    )


def has_odd_weights(call: Call) -> bool:
    """Whether the weights of classes are those of no distribution."""
    weights = np.array(call.attrs.get("unigrams", ()), np.float32)
    return not 0 < weights.sum() < np.inf or bool((weights < 0).any())


def has_outside_index(call: Call) -> bool:
    """Whether the indices of a sparse tensor, the first operands, are outside of its shape."""
    indices, _, shape = operands(call)[:3]
    return bool(((indices < 0) | (indices >= shape)).any())


def has_short_counter(call: Call) -> bool:
    """Whether the counter of a generator, the third operand, a vector of 64-bit words, has fewer than two of them."""
    return operands(call)[2].size < 2


def is_of_other_dtype(call: Call) -> bool:
    return bool(call.attrs["value"].dtype != call.attrs["dtype"].numpy)


def has_strings_for_handle(call: Call) -> bool:
    """Whether strings, or a variable of them, stand where TensorFlow 1 has the handle of a queue, table, reader or array."""
    first = next(call.operands(), None)
    if isinstance(first, Leaf):
        return first.value.dtype == object
    return first is not None and first.call.op_type == "VariableV2"


def has_odd_container(call: Call) -> bool:
    """Whether a variable is to be in a container whose name has other characters than such names have."""
    names = [each.attrs.get("container", "") for each in all_calls(call) if each.op_type == "VarHandleOp"]
    return any(re.fullmatch(r"([A-Za-z0-9.][A-Za-z0-9_.\-/]*)?", name) is None for name in names)


def has_variable_of_unknown_shape(call: Call) -> bool:
    """Whether a shape is not known, or one of its sizes."""
    shapes = [each.attrs["shape"] for each in all_calls(call) if each.op_type in ("Variable", "VariableV2")]
    return any(shape is None or None in shape for shape in shapes)


def is_empty_variable(call: Call) -> bool:
    return 0 in (call.attrs["shape"] or ())


def has_impossible_shape(call: Call) -> bool:
    """Whether the shape of a sparse tensor, the third operand, is negative or has more elements than 63 bits can count."""
    shape = operands(call)[2].reshape(-1).tolist()
    return min(shape, default=0) < 0 or math.prod(shape) >= 2**63


def has_unlike_threshold(call: Call) -> bool:
    """Whether the threshold of SparseAdd is of another dtype than the values."""
    return operands(call)[6].dtype != operands(call)[1].real.dtype


def has_unknown_operand(call: Call) -> bool:
    """Whether the content of an operand is not known when the graph is built."""
    return any(isinstance(each, Leaf) and each.static != CONSTANT for each in call.operands())
