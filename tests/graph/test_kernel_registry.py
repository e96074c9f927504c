"""Kernel lookup by op and device type, and errors of registration and lookup."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.graph.kernels import kernel_registry
from aioexec.graph.kernels.kernel import Role, plain
from aioexec.graph.kernels.kernel_registry import (
    RUN_BY_ENGINE,
    describe_kernels,
    find_kernel,
    host_memory_inputs,
    host_memory_outputs,
    register_kernel,
    supported_device_types,
)
from tests.tiers import Ops, graph, op, ops as ops

TYPES = {"GPU": False, "CPU": True, "REFERENCE": True}
FLOAT, DOUBLE, INT = dtypes.float32, dtypes.float64, dtypes.int32

first, second = plain(lambda x: x), plain(lambda x: -x)


@pytest.fixture(autouse=True)
def foo(ops: Ops, monkeypatch: pytest.MonkeyPatch) -> None:
    """An op with a kernel in its row, one without, and a registry of kernels for the test alone."""
    monkeypatch.setattr(kernel_registry, "_kernels", {})
    ops.add(
        "FakeFoo(x:T, xs:N*T, n:int32) -> (y:T, m:int32) [T:type; N:int>=1]",
        lambda *inputs: inputs[:2],
        shape=lambda context: [(), ()],
    )
    ops.add("FakeBare(xs:Ts) -> (y:float) [Ts:list(type)>=1]", lambda *inputs: inputs[0], kernel=None)


@pytest.mark.behaviour(125)
def test_a_kernel_is_chosen_by_op_device_type_and_attributes():
    floats = register_kernel("FakeFoo", "GPU", first, constraints={"T": [FLOAT, DOUBLE]})
    integers = register_kernel("FakeFoo", "GPU", second, constraints={"T": [INT]})
    other = register_kernel("FakeFoo", "CPU", second)

    for kernel, device_type, dtype in (
        (floats, "GPU", FLOAT),
        (floats, "GPU", DOUBLE),
        (integers, "GPU", INT),
        (other, "CPU", INT),
    ):
        for runs_cpu_kernels in (False, True):
            found = find_kernel("FakeFoo", device_type, {"T": dtype}, runs_cpu_kernels=runs_cpu_kernels)
            assert found is kernel


@pytest.mark.behaviour(125)
def test_every_element_of_a_list_is_within_the_constraint():
    register_kernel("FakeBare", "GPU", first, constraints={"Ts": [FLOAT, INT]})

    find_kernel("FakeBare", "GPU", {"Ts": (FLOAT, INT)}, runs_cpu_kernels=False)
    with pytest.raises(NotFoundError, match="FakeBare"):
        find_kernel("FakeBare", "GPU", {"Ts": (FLOAT, DOUBLE)}, runs_cpu_kernels=False)


@pytest.mark.behaviour(125)
def test_a_node_that_asks_for_a_label_gets_that_kernel_and_no_other_does():
    plain_one = register_kernel("FakeFoo", "GPU", first)
    special = register_kernel("FakeFoo", "GPU", second, label="special")

    for attrs, kernel in (({}, plain_one), ({"_kernel": ""}, plain_one), ({"_kernel": "special"}, special)):
        assert find_kernel("FakeFoo", "GPU", {"T": FLOAT, **attrs}, runs_cpu_kernels=False) is kernel
    with pytest.raises(NotFoundError, match="with label 'special'"):
        find_kernel("FakeFoo", "CPU", {"T": FLOAT, "_kernel": "special"}, runs_cpu_kernels=True)


@pytest.mark.behaviour(125)
def test_several_kernels_that_serve_a_node_equally_are_refused():
    register_kernel("FakeFoo", "GPU", first, constraints={"T": [FLOAT, DOUBLE]})
    register_kernel("FakeFoo", "GPU", second, constraints={"T": [FLOAT]})

    with pytest.raises(InvalidArgumentError, match="Multiple OpKernel registrations match 'FakeFoo'"):
        find_kernel("FakeFoo", "GPU", {"T": FLOAT}, runs_cpu_kernels=False)
    assert find_kernel("FakeFoo", "GPU", {"T": DOUBLE}, runs_cpu_kernels=False).make is first


@pytest.mark.behaviour(125)
def test_of_several_kernels_the_one_of_the_highest_priority_serves():
    register_kernel("FakeFoo", "GPU", first, priority=1)
    best = register_kernel("FakeFoo", "GPU", second, priority=2)
    register_kernel("FakeFoo", "GPU", first)

    assert find_kernel("FakeFoo", "GPU", {"T": FLOAT}, runs_cpu_kernels=False) is best


@pytest.mark.behaviour(125)
def test_without_a_kernel_the_registered_ones_are_listed():
    register_kernel("FakeFoo", "GPU", first, constraints={"T": [FLOAT, INT]}, label="special")

    with pytest.raises(NotFoundError, match="No registered 'FakeFoo' OpKernel for 'GPU' devices") as error:
        find_kernel("FakeFoo", "GPU", {"T": FLOAT}, runs_cpu_kernels=False)

    assert "[T=float32]" in error.value.message
    assert error.value.message.endswith(
        "Registered:\n  device='CPU'\n  device='GPU'; T in [float32, int32]; label='special'"
    )
    assert describe_kernels("FakeBare") == "  <no registered kernels>"


def test_the_row_serves_device_types_that_run_cpu_kernels():
    for device_type in ("CPU", "REFERENCE"):
        found = find_kernel("Neg", device_type, {"T": FLOAT}, runs_cpu_kernels=True)
        assert (found.op, found.device_type, found.priority) == ("Neg", device_type, 0)
    with pytest.raises(NotFoundError, match="'Neg'"):
        find_kernel("Neg", "GPU", {"T": FLOAT}, runs_cpu_kernels=False)
    with pytest.raises(NotFoundError, match="'FakeBare'"):
        find_kernel("FakeBare", "CPU", {"Ts": (FLOAT,)}, runs_cpu_kernels=True)


def test_what_cannot_be_registered():
    with pytest.raises(NotFoundError, match="Op type not registered 'FakeUnknown'"):
        register_kernel("FakeUnknown", "GPU", first)
    with pytest.raises(InvalidArgumentError, match="attr 'U' not found"):
        register_kernel("FakeFoo", "GPU", first, constraints={"U": [FLOAT]})
    with pytest.raises(InvalidArgumentError, match="HostMemory arg 'z' not found"):
        register_kernel("FakeFoo", "GPU", first, host_memory=["z"])
    assert describe_kernels("FakeFoo") == "  device='CPU'"


def test_device_types_are_those_with_a_kernel_in_the_order_given_but_for_priorities():
    with graph():
        node = op("FakeFoo", 1.0, [1.0], 1)[0].op
        assert supported_device_types(node, TYPES) == ("CPU", "REFERENCE")

        register_kernel("FakeFoo", "GPU", first, constraints={"T": [FLOAT]})
        assert supported_device_types(node, TYPES) == ("GPU", "CPU", "REFERENCE")
        register_kernel("FakeFoo", "REFERENCE", first, priority=3)
        register_kernel("FakeFoo", "CPU", first, priority=-1)
        assert supported_device_types(node, TYPES) == ("REFERENCE", "GPU", "CPU")

        integers = op("FakeFoo", 1, [1], 1)[0].op
        assert supported_device_types(integers, TYPES) == ("REFERENCE", "CPU")
        integers.set_attr("_kernel", "special")
        assert supported_device_types(integers, TYPES) == ()


@pytest.mark.parametrize("label", [3, np.array([1, 2]), FLOAT, ["special"]])
def test_a_label_that_is_no_string_asks_for_no_kernel_in_particular(label: object):
    with graph():
        node = op("Neg", 1.0).op
    node.set_attr("_kernel", label)

    assert supported_device_types(node, TYPES) == ("CPU", "REFERENCE")
    assert find_kernel("Neg", "CPU", node.attrs, runs_cpu_kernels=True).label == ""


@pytest.mark.parametrize("role", [role for role in Role if role in RUN_BY_ENGINE])
def test_what_the_engine_runs_itself_needs_no_kernel(ops: Ops, role: Role):
    ops.add("FakeRole(x:float) -> (y:float)", first, kernel=None, role=role)
    with graph():
        node = op("FakeRole", 1.0).op

    assert supported_device_types(node, TYPES) == ("GPU", "CPU", "REFERENCE")


def test_arguments_in_main_memory_are_given_by_position():
    register_kernel("FakeFoo", "GPU", first, host_memory=["xs", "m"])
    with graph():
        node = op("FakeFoo", 1.0, [1.0, 2.0], 1)[0].op

    assert host_memory_inputs(node, "GPU") == {1, 2}
    assert host_memory_outputs(node, "GPU") == {1}
    assert host_memory_inputs(node, "CPU") == host_memory_outputs(node, "CPU") == frozenset()
