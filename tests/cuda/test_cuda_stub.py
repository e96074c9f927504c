"""The stub has the functions of the bindings: the same arguments, as far as that can be known without a driver."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as bindings

from aioexec.devices.cuda import driver as module
from aioexec.devices.cuda.driver import CudaError, Driver
from aioexec.testing.cuda_driver import StubDriver

FUNCTIONS = sorted(set(re.findall(r'"(cu[A-Z]\w+)"', Path(module.__file__).read_text(encoding="utf-8"))))


def test_all_functions_in_use_are_found():
    assert len(FUNCTIONS) > 30


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_as_many_arguments_as_that_of_the_bindings(name: str):
    signature = (getattr(bindings, name).__doc__ or "").splitlines()[0]
    inside = re.sub(r"\[[^]]*\]", "", signature.partition("(")[2].rpartition(")")[0])
    count = len([each for each in inside.split(",") if each])

    code = getattr(StubDriver, f"_{name}").__code__

    assert code.co_argcount - 1 == count or code.co_flags & 4  # 4: it takes any number


def test_results_that_end_a_context_are_results_of_the_bindings():
    assert {result.name for result in bindings.CUresult} >= module._STICKY


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "0500000000000000"),
        (np.float32(1), "0000803f"),
        (np.bool_(True), "01"),
        (np.uint64(2**40), "0000000000010000"),
    ],
)
def test_a_parameter_of_a_kernel_is_passed_as_its_own_type(value: int | np.generic, expected: str):
    slots = module._slots([np.int8(-1), value])

    first, second = slots[:2] - np.uint64(slots.ctypes.data)
    assert slots.view(np.uint8)[first] == 255
    assert slots.view(np.uint8)[second : int(second) + len(expected) // 2].tobytes().hex() == expected


def test_an_error_of_the_driver_says_what_was_called(stub: StubDriver):
    stub.fail("cuDeviceGetCount", "NOT_PERMITTED")

    with pytest.raises(CudaError, match="cuDeviceGetCount: CUDA_ERROR_NOT_PERMITTED") as caught:
        Driver(stub).device_count()
    assert not caught.value.is_sticky
