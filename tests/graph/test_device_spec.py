"""Device names: read, written, merged and matched; TensorFlow's DeviceSpec over them; device scopes."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import GraphValueError
from aioexec.graph.device_spec import (
    DeviceName,
    DeviceSpec,
    canonical_name,
    check_valid,
    merge_device,
    merge_names,
    parse,
)
from aioexec.graph.graph import Graph
from aioexec.ops.control_flow.dependencies import no_op

names = st.builds(
    DeviceName,
    st.sampled_from([None, "worker", "ps"]),
    *(st.none() | st.integers(0, 3) for _ in range(2)),
    st.sampled_from([None, "CPU", "GPU", "REFERENCE"]),
    st.none() | st.integers(0, 3),
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/job:worker/replica:0/task:1/device:GPU:2", "/job:worker/replica:0/task:1/device:GPU:2"),
        ("/device:GPU:2/task:1/job:worker", "/job:worker/task:1/device:GPU:2"),
        ("/gpu:1", "/device:GPU:1"),
        ("cpu:0", "/device:CPU:0"),
        ("/cpu", "/device:CPU:*"),
        ("/device:cpu:0", "/device:CPU:0"),
        ("/device:FakeGPU:1", "/device:FakeGPU:1"),
        ("/job:a/job:b", "/job:b"),
        ("/task:*/device:*:*", ""),
        ("//", ""),
        ("", ""),
    ],
)
def test_a_name_has_one_canonical_form(text: str, canonical: str):
    assert canonical_name(text) == canonical
    assert parse(canonical) == parse(text)
    assert DeviceSpec.from_string(text).to_string() == canonical


@pytest.mark.parametrize(
    "text",
    [
        "/foo:1",
        "/Device:GPU:1",
        "/job:",
        "/job:1a",
        "/job:a b",
        "/task:x",
        "/task:-1",
        "/task:²",
        "/device:CPU:x",
        "/device::1",
        "/cpu:0/gpu:0",
        "/device:*:0/cpu:0",
        "CPU:0:1",
    ],
)
def test_a_malformed_name_is_refused(text: str):
    for read in (parse, check_valid, canonical_name, DeviceSpec.from_string):
        with pytest.raises(GraphValueError, match="Malformed device specification"):
            read(text)


def test_a_scope_of_a_malformed_name_is_refused_where_it_is_opened():
    with (
        pytest.raises(GraphValueError, match="Malformed device specification '/foo:1'"),
        Graph().device("/foo:1"),
    ):
        pass


@given(names)
def test_a_name_that_is_written_is_read_again(name: DeviceName):
    expected = name if name.device_type is not None else DeviceName(name.job, name.replica, name.task)

    assert parse(name.to_string()) == expected


@given(names, names)
def test_merging_takes_every_field_of_one_and_the_rest_of_the_other(name: DeviceName, other: DeviceName):
    merged = name.merged_over(other)

    for field in DeviceName.__slots__:
        first, second = getattr(name, field), getattr(other, field)
        assert getattr(merged, field) == (second if first is None else first)
    assert name.matches(merged)
    assert name.is_compatible(other) == other.is_compatible(name) == other.matches(merged)
    assert name.is_compatible(other) == all(
        None in (getattr(name, field), getattr(other, field)) or getattr(name, field) == getattr(other, field)
        for field in DeviceName.__slots__
    )


@given(names, names)
def test_a_name_matches_what_says_no_less(name: DeviceName, other: DeviceName):
    said = {field: getattr(name, field) for field in DeviceName.__slots__ if getattr(name, field) is not None}

    assert name.matches(other) == all(getattr(other, field) == value for field, value in said.items())
    assert name.is_open == (not said)
    assert name.without_device().device_type is None
    assert name.without_device().device_index is None


# DeviceSpec; expected values are TensorFlow's


def test_a_spec_can_be_changed_in_place():
    spec = DeviceSpec(job="ps", task=2)

    assert spec.parse_from_string("/task:3/gpu:2") is spec
    assert (spec.job, spec.replica, spec.task, spec.device_type, spec.device_index) == (
        None,
        None,
        3,
        "GPU",
        2,
    )
    spec.job, spec.replica, spec.task, spec.device_type, spec.device_index = "x", 1, 2, "cpu", 0
    assert spec.to_string() == str(spec) == "/job:x/replica:1/task:2/device:CPU:0"


@pytest.mark.parametrize(
    ("outer", "inner", "merged"),
    [
        ("/gpu:1", "/cpu:*", "/device:CPU:1"),
        ("/job:a/gpu:1", "/device:CPU:0", "/job:a/device:CPU:0"),
        ("/job:a", "/task:1", "/job:a/task:1"),
    ],
)
def test_what_a_spec_is_merged_from_takes_precedence(outer: str, inner: str, merged: str):
    spec = DeviceSpec.from_string(outer)

    made = spec.make_merged_spec(DeviceSpec.from_string(inner))
    before = spec.to_string()
    spec.merge_from(DeviceSpec.from_string(inner))

    assert made.to_string() == spec.to_string() == merge_names(outer, inner) == merged
    assert before == canonical_name(outer)


def test_a_spec_is_replaced_in_part_by_a_new_one():
    spec = DeviceSpec.from_string("/gpu:1")

    assert spec.replace(device_index=3, job="w").to_string() == "/job:w/device:GPU:3"
    assert spec.to_string() == "/device:GPU:1"


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda spec: pickle.loads(pickle.dumps(spec))]
)
def test_copies_of_a_spec_are_equal_until_one_changes(duplicate: Any):
    spec = DeviceSpec(job="a", device_type="GPU")
    other = duplicate(spec)

    assert other == spec
    assert hash(other) == hash(spec)
    other.task = 1
    assert other != spec
    assert spec.task is None
    assert spec != "/job:a/device:GPU:*"


def test_a_spec_shows_its_fields():
    assert repr(DeviceSpec(job="a", device_index=1)) == (
        "<DeviceSpec(job=a, replica=None, task=None, device_type=None, device_index=1)>"
    )


# Scopes


@pytest.mark.parametrize(
    ("scopes", "device"),
    [
        (["/gpu:1", "/cpu"], "/device:CPU:1"),
        (["/job:a", None, "/gpu:1"], "/device:GPU:1"),
        ([DeviceSpec(job="a"), "/gpu:1"], "/job:a/device:GPU:1"),
        (["/gpu:1", lambda op: "/cpu"], "/device:CPU:1"),
        ([lambda op: "/cpu:0", "/gpu:1"], "/device:CPU:0"),
        ([lambda op: "", "/gpu:1"], ""),
        ([lambda op: DeviceSpec(device_type="CPU"), "/gpu:1"], "/device:CPU:*"),
        ([merge_device("/job:a/cpu:*"), "/gpu:1"], "/job:a/device:GPU:1"),
        ([merge_device(DeviceSpec(job="a")), "/gpu:1"], "/job:a/device:GPU:1"),
    ],
)
def test_scopes_merge_from_the_inside_and_a_function_has_the_last_word(scopes: list[Any], device: str):
    graph = Graph()
    with contextlib.ExitStack() as stack:
        stack.enter_context(graph.as_default())
        for scope in scopes:
            stack.enter_context(graph.device(scope))

        assert no_op().device == device
