"""Every op of the registry against its cases: values, dtypes, shapes, gradients, and the native form against the reference."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import aioexec.ops
from aioexec import shapes
from aioexec.devices.jit import usual_kernels
from aioexec.graph import registry
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Alias, Kernel, Launches, LoopKernel, Role
from aioexec.graph.registry import NOT_DIFFERENTIABLE, undefined_gradient
from aioexec.resources.variable import Variable
from tests.ops import harness
from tests.ops.harness import Case, Ref
from tests.ops.native import NativeStatusError, bind, output_specs, run_native

for module in pkgutil.walk_packages(aioexec.ops.__path__, "aioexec.ops."):
    importlib.import_module(module.name)

CASES = harness.tables()


def over(cases: list[Case]) -> Any:
    """Parametrise a test over cases, each under the name of its op."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.op_type) for case in cases])


VALID = [case for case in CASES if case.raises is None]


@over(VALID)
def test_the_reference_kernel_computes_what_the_table_says_in_every_dtype(case: Case):
    for setting in harness.settings(case):
        values = setting.fresh_values()

        outputs = harness.run_reference(setting, values)

        wanted = harness.expectation(setting, case.expected, len(outputs))
        for k, expected in enumerate(wanted or ()):
            harness.assert_close(setting, outputs[k], expected, f"output {k}")
        after = [value.buffer for value in values if isinstance(value, Variable) and value.buffer is not None]
        for variable, expected in zip(after, harness.expectation(setting, case.state, 0) or (), strict=False):
            harness.assert_close(setting, variable, expected, "variable")


@over([case for case in VALID if case.strided])
def test_the_reference_kernel_takes_arrays_that_are_not_contiguous(case: Case):
    setting = next(harness.settings(case))
    expected = harness.run_reference(setting, setting.fresh_values())
    values = [harness.variable(v) if isinstance(v, Ref) else harness.strided(v) for v in setting.values]

    outputs = harness.run_reference(setting, values)

    for k, (actual, wanted) in enumerate(zip(outputs, expected, strict=True)):
        if isinstance(actual, np.ndarray):
            harness.assert_close(setting, actual, wanted, f"output {k}")


@over(VALID)
def test_static_shapes_agree_with_the_values_however_little_is_known(case: Case):
    setting = next(harness.settings(case))
    outputs = harness.run_reference(setting, setting.fresh_values())
    arguments = [arg for arg, _ in harness.flat_inputs(case)]
    unknown_dims = [(None,) * harness.plain(value).ndim for value in setting.values]

    for dims, constant in ((None, False), (unknown_dims, False), ((), False), ((), True)):
        with Graph().as_default() as graph:
            tensors = [
                harness.source(
                    graph, arg, value, constant=constant, dims=dims[k] if isinstance(dims, list) else dims
                )
                for k, (arg, value) in enumerate(zip(arguments, setting.values, strict=True))
            ]
            name = case.op_type.lstrip("_")
            op = graph.create_op(case.op_type, tensors, name=name, attrs=harness.attrs_of(case))
        for k, actual in enumerate(outputs):
            if isinstance(actual, np.ndarray):
                assert shapes.compatible(op.outputs[k].dims, actual.shape), (
                    case,
                    dims,
                    op.outputs[k].dims,
                    actual.shape,
                )


@over([case for case in VALID if case.gradients])
def test_the_gradient_rule_agrees_with_differences(case: Case):
    for index in case.gradients:
        by_rule, by_differences = harness.gradient_pair(case, index)

        assert by_rule.shape == by_differences.shape
        tolerance = max(harness.GRADIENT_TOLERANCE[harness.gradient_dtype(case)], case.tolerance or 0.0)
        np.testing.assert_allclose(
            by_rule, by_differences, rtol=tolerance, atol=tolerance, err_msg=f"input {index} of {case}"
        )


NATIVE = [case for case in VALID if case.native and registry.lookup(case.op_type).native is not None]


@over(NATIVE)
def test_the_native_form_agrees_with_the_reference_kernel(case: Case):
    for setting in native_settings(case):
        if not takes_long_to_compile(setting):
            check_native(setting)


@pytest.mark.slow
@pytest.mark.parametrize("op_type", sorted({case.op_type for case in NATIVE}))
def test_the_native_form_agrees_with_the_reference_kernel_where_it_takes_long_to_compile(op_type: str):
    for case in NATIVE:
        for setting in native_settings(case) if case.op_type == op_type else ():
            if takes_long_to_compile(setting):
                check_native(setting)


def native_settings(case: Case) -> Iterator[harness.Setting]:
    native = registry.lookup(case.op_type).native
    assert native is not None
    for name in harness.dtypes_of(case):
        if name is None or name in native.dtypes:
            yield harness.setting(case, name)


@cache
def shipped() -> frozenset[Kernel]:
    return frozenset(usual_kernels.read())


def takes_long_to_compile(setting: harness.Setting) -> bool:
    """Whether loops are compiled for another dtype than float32, for an op that takes float32, or of unusual convolutions."""
    native = setting.op.row.native
    assert native is not None
    launches = launches_of(setting)
    rows = launches.rows if isinstance(launches, Launches) else ()
    loops = [row.kernel for row in rows if row is not None and isinstance(row.kernel, LoopKernel)]
    if setting.dtype not in (None, "float32") and "float32" in native.dtypes:
        return bool(loops)
    return any(".convolution." in loop.body.__module__ and loop not in shipped() for loop in loops)


def launches_of(setting: harness.Setting) -> Launches | Alias | None:
    inputs = [v.value if isinstance(v, Ref) else v for v in setting.values]
    return bind(setting.op, inputs, output_specs(setting.op, inputs))


def check_native(setting: harness.Setting) -> None:
    """Compare the native form with the reference kernel, also where the output takes over the memory of an input."""
    assert harness.native_agrees(setting, None), f"{setting.case} in {setting.dtype}: no native form"
    if setting.op.row.writes:
        return
    launches = launches_of(setting)
    for k in launches.inplace if isinstance(launches, Launches) else ():
        harness.native_agrees(setting, k)


@over([case for case in CASES if case.raises is not None])
def test_bad_values_raise_the_canonical_error(case: Case):
    setting = next(harness.settings(case))
    assert case.raises is not None

    with pytest.raises(case.raises):
        harness.run_reference(setting, setting.fresh_values())


@over(
    [
        case
        for case in CASES
        if case.raises and case.native and registry.lookup(case.op_type).native is not None
    ]
)
def test_bad_values_are_found_by_the_native_form_as_well(case: Case):
    native = registry.lookup(case.op_type).native
    assert native is not None
    setting = next(
        item for item in harness.settings(case) if item.dtype is None or item.dtype in native.dtypes
    )

    found = status_error(setting)

    assert found in (case.raises, None), f"{case}: {found}"


def status_error(setting: harness.Setting) -> type[Exception] | None:
    """The error class of the status the native form gives; None if it leaves the case to the reference kernel."""
    try:
        result = run_native(setting.op, setting.fresh_values())
    except NativeStatusError as error:
        return error.error_class
    assert result is None, f"{setting.case}: the native form accepts it"
    return None


CONTROL_FLOW = {"Switch", "Merge", "Enter", "Exit", "NextIteration"}
REFUSING = {"PreventGradient", "SparseDenseCwiseAdd"} | CONTROL_FLOW | {f"Ref{name}" for name in CONTROL_FLOW}
"""Ops whose gradient rule is an error on purpose."""

IMPLICIT = {"RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3"}
"""Ops whose gradient is by the distribution: that of the number a stream gives is another. Compared with TensorFlow only."""

ROWS = [pytest.param(row, id=row.name) for row in registry.registered()]


ELSEWHERE = {
    *("_Arg", "_Retval"),
    *(row.name for row in registry.registered() if row.name.startswith("Optional")),
    *("ReadFile", "WriteFile", "MatchingFiles", "PrintV2"),
    *(row.name for row in registry.registered() if re.match(r"Reader|\w+Reader(V2)?$", row.name)),
    *("GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "DeleteSessionTensor"),
    *(row.name for row in registry.registered() if re.match(r"(Empty)?Tensor(List|Array)|Stack", row.name)),
    *(
        row.name
        for row in registry.registered()
        if re.search(r"Queue(V2)?$|Barrier|Accumulator|Table|Dataset|Iterator|TensorsMap$", row.name)
    ),
}
"""Ops on lists, and on resources that are no variables: like those that wait, each has tests of its own beside this file."""


@pytest.mark.parametrize("row", ROWS)
def test_every_op_has_a_case(row: registry.Row):
    has_case = row.name in {case.op_type for case in CASES}
    assert (
        has_case or row.role is Role.NO_OP or row.kernel is None or row.asynchronous or row.name in ELSEWHERE
    )


@pytest.mark.parametrize("row", ROWS)
def test_every_differentiable_op_has_a_gradient_case(row: registry.Row):
    assert (
        row.gradient in (NOT_DIFFERENTIABLE, undefined_gradient)
        or row.name in REFUSING | IMPLICIT | ELSEWHERE
        or row.bodies is not None  # it has the gradients of its bodies
        or any(case.gradients for case in VALID if case.op_type == row.name)
    )


def _covered(row: registry.Row) -> set[str]:
    return {name for case in VALID if case.op_type == row.name for name in harness.dtypes_of(case) if name}


@pytest.mark.parametrize("row", [param for param in ROWS if param.values[0].native is not None])  # type: ignore[union-attr]
def test_every_dtype_promised_natively_has_a_case(row: registry.Row):
    cases = [case for case in NATIVE if case.op_type == row.name]
    varied = harness.varied_attribute(cases[0]) if cases else None
    attr = row.definition.attr(varied) if varied else None
    if row.native is None or attr is None:
        return
    allowed = (
        row.native.dtypes if attr.allowed is None else row.native.dtypes & {d.name for d in attr.allowed}
    )

    assert allowed <= _covered(row)
