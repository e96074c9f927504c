"""Parsing of Examples: valid, unusual and malformed bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes as dt
from aioexec.formats.examples import features_of, kind_of, values_of, varints
from tests.ops.io.example_bytes import DAMAGED, DAMAGED_INTEGERS, INTEGERS, READABLE, example, varint


def read(data: bytes) -> dict[bytes, list[object]]:
    return {
        key: values_of(feature).tolist() if kind_of(feature) else []
        for key, feature in features_of(data).items()
    }


def test_features_are_found_by_their_keys():
    data = example(a=[1.5, -2.0], b=[3, -4], c=[b"x", b""], d=[])

    assert read(data) == {b"a": [1.5, -2.0], b"b": [3, -4], b"c": [b"x", b""], b"d": []}
    assert [kind_of(feature) for feature in features_of(data).values()] == [
        dt.float32,
        dt.int64,
        dt.string,
        None,
    ]


@pytest.mark.parametrize("name", [name for name in READABLE if name != "another feature that is wrong"])
def test_what_is_unusual_is_read(name):
    assert read(READABLE[name]).get(b"a", []) in ([], [1.0], [2.0], [1.0, 2.0])


@pytest.mark.parametrize("data", [*DAMAGED.values(), *DAMAGED_INTEGERS.values()])
def test_what_is_damaged_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        read(data)


def test_integers_are_read_packed_and_one_by_one():
    assert read(INTEGERS["negative and large"])[b"a"] == [-5, 1 << 62, 0, 127, 128]
    assert read(INTEGERS["each with its tag"])[b"a"] == [5, 300]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers_of_variable_length_come_back(numbers):
    assert varints(b"".join(map(varint, numbers))).tolist() == numbers


def test_bytes_cut_and_changed_anywhere_are_read_or_refused():
    data = example(a=[1.5, -2.0], b=[3, -4], c=[b"x", b""])
    choose = random.Random(4)

    for _ in range(2000):
        changed = bytearray(data[: choose.randrange(len(data) + 1)])
        for _ in range(choose.randrange(3)):
            if changed:
                changed[choose.randrange(len(changed))] = choose.randrange(256)
        try:
            read(bytes(changed))
        except ValueError:
            continue


def test_floats_have_memory_of_their_own_or_are_not_written():
    values = values_of(features_of(example(a=[1.0]))[b"a"])

    assert values.dtype == np.float32
    assert not values.flags.writeable
