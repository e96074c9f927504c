"""The table form of op tests: one `case` is checked forward, in every dtype, backward, native, and for its shapes.

A family keeps its cases in `<package>/cases_<family>.py` as a list `CASES`; `test_registry` finds and walks them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import OpError
from aioexec.graph import registry
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.opdef import ArgDef
from aioexec.resources.variable import Variable
from tests.ops.evaluate import as_outputs, context_of, evaluate, seen
from tests.ops.native import Array, run_native

TOLERANCES = {
    "float64": 1e-11,
    "complex128": 1e-11,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}
"""Allowed error of a floating-point result, relative and absolute; other dtypes are compared exactly."""

WIDE = {"float16": np.float64, "bfloat16": np.float64, "float32": np.float64, "complex64": np.complex128}
"""The dtype in which `expected` is computed, so that its own error does not count."""

KINDS = {
    "f": ("float64", "float32", "float16", "bfloat16"),
    "i": ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
    "b": ("bool",),
    "c": ("complex128", "complex64"),
    "O": ("string",),
}
"""The dtypes of a value in a table, by the kind NumPy gives it."""


@dataclass(frozen=True)
class Ref:
    """An input that is a variable holding `value`; given a `dtype`, that one in every run of the case."""

    value: Any
    dtype: str | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """See `case`."""

    op_type: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    expected: Any
    gradients: tuple[int, ...]
    dtypes: tuple[str, ...] | None
    tolerance: float | None
    vary: str | None
    native: bool
    raises: type[OpError] | None
    state: Any
    differentiated: tuple[int, ...] | None
    strided: bool

    def __repr__(self) -> str:
        return f"{self.op_type}({', '.join(map(repr, self.inputs))}, {self.attrs})"


def case(
    op_type: str,
    *inputs: Any,
    attrs: dict[str, Any] | None = None,
    expected: Any = None,
    gradients: tuple[int, ...] = (),
    dtypes: Sequence[str] | None = None,
    tolerance: float | None = None,
    vary: str | None = None,
    native: bool = True,
    raises: type[OpError] | None = None,
    state: Any = None,
    differentiated: tuple[int, ...] | None = None,
    strided: bool = True,
) -> Case:
    """One row of a table.

    Args:
        inputs: a value for each argument of the op's signature; a list of them where it takes N; `Ref(value)` for a variable.
        expected: the output (a tuple if there are several), or a function of the inputs that computes it: with NumPy or by
            hand. It gets small floats as float64. None where only shapes, dtypes and agreement of the tiers are known.
        gradients: the inputs (flat numbers) whose gradient is checked numerically in float64.
        dtypes: NumPy names of the dtypes to run in. Left out: every dtype the op takes of the kind of the value, so that a
            case with floats and a case with integers cover an op.
        tolerance: error allowed in float32 (other dtypes in proportion), relative and absolute.
        vary: the type attribute that takes these dtypes; left out: "T" or the first.
        native: whether the native form must agree with the reference kernel (where the row promises the dtype).
        raises: the error that running it gives; no other check is made.
        state: what the variables among the inputs hold afterwards, as `expected`, in order.
        differentiated: the outputs that get a gradient in the check; left out: all of floating point.
        strided: whether inputs that are not contiguous must do as well.
    """
    return Case(
        op_type,
        inputs,
        dict(attrs or {}),
        expected,
        gradients,
        None if dtypes is None else tuple(dtypes),
        tolerance,
        vary,
        native,
        raises,
        state,
        differentiated,
        strided,
    )


def variants(base: Case, *inputs: tuple[Any, ...], gradients: bool = False) -> list[Case]:
    """The same op with other inputs; without the gradient check unless requested."""
    kept = base.gradients if gradients else ()
    return [base, *(replace(base, inputs=other, gradients=kept) for other in inputs)]


@cache
def tables() -> tuple[Case, ...]:
    """Every case of every table below this folder."""
    found: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("*/cases_*.py"), key=lambda path: path.stem):
        found.extend(importlib.import_module(f"tests.ops.{path.parent.name}.{path.stem}").CASES)
    return tuple(found)


# From a case to a node


@dataclass(frozen=True)
class Setting:
    """A case in one dtype: its node, and the value of each of its inputs."""

    case: Case
    dtype: str | None
    op: Operation
    values: tuple[Any, ...]

    def fresh_values(self) -> list[Any]:
        """The inputs of one run: new variables, read-only arrays."""
        return [variable(value) if isinstance(value, Ref) else protected(value) for value in self.values]

    def tolerance(self, dtype: np.dtype[Any]) -> float:
        own = TOLERANCES.get(dtype.name, 0.0)
        if self.dtype in ("float16", "bfloat16") and own:
            own = max(own, TOLERANCES[self.dtype])
        if self.case.tolerance is not None:
            own *= self.case.tolerance / TOLERANCES["float32"]
        return own


def varied_attribute(case: Case) -> str | None:
    """The type attribute of the op that takes the dtypes of a case."""
    names = [arg.type_attr for arg in registry.lookup(case.op_type).definition.inputs if arg.type_attr]
    if case.vary is not None:
        return case.vary
    return "T" if "T" in names else names[0] if names else None


def flat_inputs(case: Case) -> list[tuple[ArgDef, Any]]:
    """The argument and the value of each input."""
    definition = registry.lookup(case.op_type).definition
    assert len(definition.inputs) == len(case.inputs), f"{case}: {len(definition.inputs)} inputs"
    flat = []
    for arg, value in zip(definition.inputs, case.inputs, strict=True):
        flat.extend([(arg, item) for item in value] if arg.is_list else [(arg, value)])
    return flat


def attrs_of(case: Case) -> dict[str, Any]:
    """Attributes, with the lengths of the lists: two lists of one length cannot be distinguished otherwise."""
    definition = registry.lookup(case.op_type).definition
    pairs = zip(definition.inputs, case.inputs, strict=True)
    return {arg.number_attr: len(value) for arg, value in pairs if arg.number_attr} | case.attrs


def dtypes_of(case: Case) -> tuple[str | None, ...]:
    """The dtypes to run a case in; (None,) if no dtype varies."""
    varied = varied_attribute(case)
    values = [
        plain(value) for arg, value in flat_inputs(case) if arg.type_attr == varied or isinstance(value, Ref)
    ]
    if varied is None or not values:
        return (None,)
    attr = registry.lookup(case.op_type).definition.attr(varied)
    allowed = None if attr is None or attr.allowed is None else {dtype.name for dtype in attr.allowed}
    if case.dtypes is not None:
        return tuple(name for name in case.dtypes if allowed is None or name in allowed)
    kind = max((value.dtype.kind for value in values), key="Obuifc".index).replace("u", "i")
    for names in (KINDS[kind], KINDS["f"], KINDS["c"]):  # integers in a table may also mean whole floats
        found = [
            n for n in names if (allowed is None or n in allowed) and all(fits(value, n) for value in values)
        ]
        if found:
            return tuple(found)
    raise AssertionError(f"{case}: the op takes no dtype of kind {kind!r}")


def plain(value: Any) -> Array:
    """A value of a table as an array, its dtype still open."""
    content = value.value if isinstance(value, Ref) else value
    array = np.asarray(content)
    return dt.to_array(content, dt.string) if array.dtype.kind in "SUO" else array


def fits(value: Array, name: str) -> bool:
    """Whether integers are within a dtype."""
    if value.dtype.kind not in "iu" or value.size == 0 or name not in KINDS["i"]:
        return True
    limits = np.iinfo(name)
    return bool(limits.min <= value.min() and value.max() <= limits.max)


def settings(case: Case) -> Iterator[Setting]:
    """A case in each of its dtypes."""
    for name in dtypes_of(case):
        yield setting(case, name)


def setting(case: Case, name: str | None) -> Setting:
    varied = varied_attribute(case)
    values = tuple(typed(arg, value, varied, name) for arg, value in flat_inputs(case))
    with Graph().as_default() as graph:
        tensors = [
            source(graph, arg, value, constant=False)
            for (arg, _), value in zip(flat_inputs(case), values, strict=True)
        ]
        op = graph.create_op(case.op_type, tensors, name=case.op_type.lstrip("_"), attrs=attrs_of(case))
    return Setting(case, name, op, values)


def typed(arg: ArgDef, value: Any, varied: str | None, name: str | None) -> Any:
    """A value in the dtype it has in this run; a Ref stays a Ref."""
    wanted = arg.dtype
    if name is not None and (arg.type_attr == varied or isinstance(value, Ref)):
        wanted = dt.as_dtype(name)
    if isinstance(value, Ref):
        return Ref(converted(value.value, dt.as_dtype(value.dtype) if value.dtype else wanted))
    return converted(value, wanted)


def converted(value: Any, dtype: DType | None) -> Array:
    if dtype is None or dtype is dt.string:
        return dt.to_array(value, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype.numpy)


def source(graph: Graph, arg: ArgDef, value: Any, *, constant: bool, dims: Any = ()) -> Tensor:
    """A node that stands for an input: a constant, a variable, or a placeholder of the value's shape, or of shape `dims`."""
    array = plain(value)
    dims = array.shape if dims == () else dims
    if isinstance(value, Ref) and arg.is_ref:
        attrs = {"dtype": tensor_dtype(array), "shape": dims}
        return graph.create_op("VariableV2", (), attrs=attrs).outputs[0]
    if isinstance(value, Ref):
        return graph.create_op("Placeholder", (), attrs={"dtype": dt.resource, "shape": ()}).outputs[0]
    dtype = tensor_dtype(array)
    if constant:
        return graph.create_op("Const", (), attrs={"value": array, "dtype": dtype}).outputs[0]
    return graph.create_op("Placeholder", (), attrs={"dtype": dtype, "shape": dims}).outputs[0]


def tensor_dtype(array: Array) -> DType:
    return dt.string if array.dtype == object else dt.as_dtype(array.dtype)


def variable(ref: Ref) -> Variable:
    made = Variable("v", tensor_dtype(ref.value), ref.value.shape)
    made.assign(ref.value)
    return made


def protected(array: Array) -> Array:
    copy = np.array(array, copy=True, order="C")
    copy.setflags(write=False)
    return copy


def strided(array: Array) -> Array:
    """The same content, every second element of something twice as large in each dimension."""
    spread = np.zeros([2 * dim for dim in array.shape], array.dtype)
    index: Any = (*(slice(None, None, 2) for _ in array.shape), ...)
    view = spread[index]
    view[...] = array
    view.setflags(write=False)
    return view


# Values on each tier


def run_reference(setting: Setting, values: Sequence[Any]) -> list[Any]:
    op = setting.op
    assert op.row.kernel is not None, f"{op.type} has no kernel"
    inputs = [seen(op, k, value) for k, value in enumerate(values)]
    with np.errstate(all="ignore"):
        return as_outputs(op, op.row.kernel(context_of(op))(*inputs))


def expectation(setting: Setting, wanted: Any, count: int) -> list[Any] | None:
    """The outputs stated in the table; None if it states none."""
    if wanted is None:
        return None
    if callable(wanted):
        inputs = [widened(value.value if isinstance(value, Ref) else value) for value in setting.values]
        with np.errstate(all="ignore"):
            wanted = wanted(*inputs)
    return list(wanted) if isinstance(wanted, tuple) else [wanted]


def widened(array: Array) -> Array:
    return array.astype(WIDE[array.dtype.name]) if array.dtype.name in WIDE else array


def assert_close(setting: Setting, actual: Array, expected: Any, what: str) -> None:
    try:
        compare(actual, np.asarray(expected), setting.tolerance(actual.dtype))
    except AssertionError as error:
        error.add_note(f"{what} of {setting.case} in {setting.dtype}")  # here, as a name takes long to write
        raise


def compare(actual: Array, expected: Array, tolerance: float) -> None:
    """Fail unless every element is within a relative or absolute `tolerance`; 0 stands for equality."""
    assert actual.shape == expected.shape
    if actual.dtype == object or not tolerance:
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype), strict=True)
        return
    wide = WIDE.get(actual.dtype.name, actual.dtype)
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype).astype(wide)  # what is beyond the dtype is infinite in it
    np.testing.assert_allclose(actual.astype(wide), rounded, rtol=tolerance, atol=tolerance)


def native_agrees(setting: Setting, share: int | None) -> bool:
    """Compare the native form with the reference kernel; False if the op has none for these inputs."""
    values = setting.fresh_values()
    reference = run_reference(setting, values)
    result = run_native(setting.op, setting.fresh_values(), share)
    if result is None:
        return False
    outputs, states = result
    if not setting.op.row.writes:
        for k, (actual, wanted) in enumerate(zip(outputs, reference, strict=True)):
            assert_close(setting, actual, wanted, f"native output {k} (input {share} taken over)")
    after = [value.require() for value in values if isinstance(value, Variable)]
    for actual, wanted in zip(states, after, strict=True):
        assert_close(setting, actual, wanted, "native variable")
    return True


# Gradients

STEP = {"float64": 1e-6, "float32": 1e-2, "complex128": 1e-6}
GRADIENT_TOLERANCE = {"float64": 2e-5, "float32": 2e-2, "complex128": 2e-5}


def gradient_dtype(case: Case) -> str:
    """The dtype gradients are checked in: double precision unless the op does not take it."""
    if any(plain(value).dtype.kind == "c" for _, value in flat_inputs(case)):
        return "complex128"
    varied = varied_attribute(case)
    attr = None if varied is None else registry.lookup(case.op_type).definition.attr(varied)
    allowed = None if attr is None else attr.allowed
    is_single = case.dtypes is not None and "float32" in case.dtypes and "float64" not in case.dtypes
    is_single |= varied is None and any(arg.dtype is dt.float32 for arg, _ in flat_inputs(case))
    if is_single or (allowed is not None and dt.float64 not in allowed):
        return "float32"
    return "float64"


def gradient_pair(case: Case, index: int) -> tuple[Array, Array]:
    """The gradient of a weighted sum of the outputs by input `index`: by the op's rule, and by differences."""
    varied, dtype = varied_attribute(case), gradient_dtype(case)
    values = [typed(arg, value, varied, dtype) for arg, value in flat_inputs(case)]
    if dtype == "float64":
        values = [
            value if arg.dtype is dt.float32 else doubled(value)
            for (arg, _), value in zip(flat_inputs(case), values, strict=True)
        ]
    with Graph().as_default() as graph:
        tensors = [
            source(graph, arg, value, constant=k not in case.gradients)
            for k, ((arg, _), value) in enumerate(zip(flat_inputs(case), values, strict=True))
        ]
        op = graph.create_op(case.op_type, tensors, name=case.op_type.lstrip("_"), attrs=attrs_of(case))
        feeds = {tensors[k]: fed(values[k]) for k in case.gradients}
        weights = random_weights(case, op, feeds)
        constants = [source(graph, None, w, constant=True) if w is not None else None for w in weights]
        assert callable(op.row.gradient)
        by_rule = evaluate(op.row.gradient(op, *constants)[index], feeds)

    at = values[index]

    def weighted_sum(changed: Array) -> float:
        fresh = variable(Ref(changed)) if isinstance(at, Ref) else changed
        outputs = evaluate(list(op.outputs), {**feeds, tensors[index]: fresh})
        return float(
            sum(
                np.vdot(widened(w), widened(y)).real
                for w, y in zip(weights, outputs, strict=True)
                if w is not None
            )
        )

    return by_rule, differences(weighted_sum, at.value if isinstance(at, Ref) else at, STEP[dtype])


def doubled(value: Any) -> Any:
    """Floats in double precision, whatever the argument."""
    return value.astype(np.float64) if not isinstance(value, Ref) and value.dtype == np.float32 else value


def fed(value: Any) -> Any:
    """An input as the evaluator takes it."""
    return variable(value) if isinstance(value, Ref) else value


def random_weights(case: Case, op: Operation, feeds: dict[Tensor, Any]) -> list[Array | None]:
    """A gradient for each output, None where it gets none."""
    generator = np.random.default_rng(7)
    weights: list[Array | None] = []
    for k, value in enumerate(evaluate(list(op.outputs), feeds)):
        floating = value.dtype in (np.float64, np.float32, np.complex128)
        counts = case.differentiated is None or k in case.differentiated
        drawn = np.asarray(generator.uniform(0.5, 1.5, value.shape) if counts else np.zeros(value.shape))
        drawn = drawn * (1 - 0.5j) if value.dtype.kind == "c" else drawn
        weights.append(np.asarray(drawn, value.dtype) if floating else None)
    return weights


def differences(function: Callable[[Array], float], at: Array, relative: float) -> Array:
    """Of a complex argument the slope along the real axis, and as imaginary part that along the imaginary one."""
    result = np.zeros(at.shape, complex if at.dtype.kind == "c" else float)
    for position in np.ndindex(at.shape):
        step = relative * max(1.0, float(abs(at[position])))
        for unit in (1, 1j) if at.dtype.kind == "c" else (1,):
            up, down = at.copy(), at.copy()
            up[position] += step * unit
            down[position] -= step * unit
            result[position] += unit * (function(up) - function(down)) / abs(up[position] - down[position])
    return result
