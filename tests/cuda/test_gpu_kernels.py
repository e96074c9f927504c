"""The GPU's kernels compute what the reference kernels do: the op tables, with the IR of each kernel run on the processor."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from aioexec.devices.cuda.programs import products
from aioexec.devices.cuda.ptx.contractions import Tile
from aioexec.devices.cuda.registration import DEVICE_TYPE, maker, register_gpu_kernels
from aioexec.devices.cuda.supported import FAMILIES
from aioexec.errors import OpError, UnimplementedError
from aioexec.graph import registry
from aioexec.graph.kernels import kernel_registry
from aioexec.graph.kernels.kernel_registry import find_kernel
from aioexec.resources.variable import Variable
from tests.cuda.assembler import assemble
from tests.cuda.gpu import EmulatedLauncher, run_on_gpu
from tests.ops.harness import Case, Setting, assert_close, dtypes_of, run_reference, setting, tables

SUPPORTED = frozenset().union(*FAMILIES.values()) - FAMILIES["without work"]


def op_types() -> list[str]:
    return sorted({case.op_type for case in tables()} & SUPPORTED)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's kernels, for one test."""
    monkeypatch.setattr(kernel_registry, "_kernels", dict(kernel_registry._kernels))
    for name in SUPPORTED:
        kernel_registry._kernels[name] = list(kernel_registry._kernels.get(name, ()))
    register_gpu_kernels()


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in tiles of few elements, so that few threads wait for each other, and small matrices have several."""
    monkeypatch.setattr(products, "TILE", Tile(8, 8, 4, 2, 2))


def cases_of(op_type: str) -> list[Case]:
    return [case for case in tables() if case.op_type == op_type and not case.raises]


def has_kernel(found: Setting) -> bool:
    try:
        find_kernel(found.case.op_type, DEVICE_TYPE, found.op.attrs, runs_cpu_kernels=False)
    except OpError:
        return False
    return True


def check(found: Setting) -> EmulatedLauncher | None:
    """Compare a node on the emulated GPU with the reference kernel; None if that raises."""
    values = found.fresh_values()
    try:
        reference = run_reference(found, values)
    except Exception:
        return None
    outputs, contents, launcher = run_on_gpu(found)
    for k, (actual, wanted) in enumerate(zip(outputs, reference, strict=False)):
        if not isinstance(wanted, Variable):
            assert_close(found, actual, np.asarray(wanted), f"output {k}")
    after = [value.require() for value in values if isinstance(value, Variable)]
    for actual, content in zip(contents, after, strict=True):
        assert_close(found, actual, content, "variable")
    return launcher


@pytest.mark.parametrize("op_type", op_types()[::3])
def test_first_case_of_every_third_op(registered: None, op_type: str):
    settings = (setting(case, dtype) for case in cases_of(op_type) for dtype in dtypes_of(case))
    found = next(each for each in settings if has_kernel(each))

    assert check(found) is not None


@pytest.mark.sweep
@pytest.mark.parametrize("op_type", op_types())
def test_all_cases_of_each_op_in_all_dtypes(registered: None, op_type: str):
    for case in cases_of(op_type):
        for dtype in dtypes_of(case):
            found = setting(case, dtype)
            if has_kernel(found) and (launcher := check(found)) is not None:
                for module in launcher.modules:
                    assemble(module.ptx)


@pytest.mark.sweep
def test_no_other_op_with_a_native_form_could_run():
    """Of each op that is not listed, some case has no GPU kernel."""
    listed = frozenset().union(*FAMILIES.values())
    for name in sorted({case.op_type for case in tables()} - listed):
        row = registry.lookup(name)
        if row.native is not None and row.role not in kernel_registry.RUN_BY_ENGINE:
            assert any(is_refused(each) for case in cases_of(name) for each in in_numeric_dtypes(case)), name


def in_numeric_dtypes(case: Case) -> list[Setting]:
    return [
        setting(case, name) for name in dtypes_of(case) if name not in ("string", "complex64", "complex128")
    ]


def is_refused(found: Setting) -> bool:
    try:
        check(found)
    except UnimplementedError:
        return True
    return False


@pytest.mark.parametrize("op_type", ["Add", "Cast", "Sin", "Pow", "ResourceApplyAdam", "Transpose"])
def test_ptx_of_kernels_assembles(op_type: str):
    case = cases_of(op_type)[0]
    launcher = check(setting(case, dtypes_of(case)[0]))

    assert launcher is not None
    assert launcher.modules
    for module in launcher.modules:
        assemble(module.ptx)


def test_kernels_are_registered_for_gpus(registered: None):
    for name in SUPPORTED:
        assert kernel_registry.has_registered_kernels(name)


def test_every_op_has_a_kernel_for_some_case(registered: None):
    for op_type in op_types():
        settings = (setting(case, dtype) for case in cases_of(op_type) for dtype in dtypes_of(case))
        assert any(map(has_kernel, settings)), op_type


def test_a_node_without_kernel_for_its_shapes_says_where_to_place_it():
    case = next(case for case in cases_of("Equal") if case.attrs.get("incompatible_shape_error") is False)

    with pytest.raises(UnimplementedError, match="place it on the CPU"):
        run_on_gpu(setting(case, "float32"))


def test_variables_are_read_without_work():
    made: Any = maker(registry.lookup("ReadVariableOp"))(cast(Any, None))

    class Held:
        def content(self) -> str:
            return "the buffer"

    assert made(None, Held()) == "the buffer"
