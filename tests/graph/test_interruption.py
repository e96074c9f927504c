"""Kernels that are interrupted during their work because their step was cancelled."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aioexec  # noqa: F401  (wires ops)
from aioexec import dtypes
from aioexec.errors import CancelledError
from aioexec.graph import registry
from aioexec.graph.kernels.interruption import check_cancelled, current, interruptible


@pytest.fixture
def job():
    """This thread runs a job."""
    current.job = job = SimpleNamespace(is_cancelled=False)
    yield job
    current.job = None


def test_only_a_cancelled_job_is_interrupted(job: Any):
    check_cancelled()
    job.is_cancelled = True

    with pytest.raises(CancelledError):
        check_cancelled()
    current.job = None
    check_cancelled()


def test_a_library_in_python_is_interrupted_at_its_next_call(job: Any):
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        job.is_cancelled = calls == 3

    def forever() -> None:
        while True:
            step()

    before = sys.getprofile()
    with pytest.raises(CancelledError):
        interruptible(forever)

    assert calls == 3
    assert sys.getprofile() is before
    current.job = None
    assert interruptible(lambda: 7) == 7


SEEDS = {"seed": 1, "seed2": 2}
ONE = np.ones(1, np.float32)
SIZE = np.array([10])
SAMPLER = SEEDS | {"num_true": 1, "num_sampled": 5, "range_max": 1000}
WINDOW = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC", "rates": [1, 1, 1, 1]}
TEXT = np.array([b"a", b"b"], object)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs"),
    [
        ("UniformCandidateSampler", [np.array([[1]])], SAMPLER | {"unique": True}),
        ("LogUniformCandidateSampler", [np.array([[1]])], SAMPLER | {"unique": False}),
        ("ParameterizedTruncatedNormal", [SIZE, ONE, ONE, ONE, 2 * ONE], SEEDS | {"dtype": dtypes.float32}),
        ("RandomGamma", [SIZE, ONE], SEEDS),
        ("RandomPoisson", [SIZE, ONE], SEEDS),
        ("RandomUniform", [SIZE], SEEDS | {"dtype": dtypes.float32}),
        ("TruncatedNormal", [SIZE], SEEDS | {"dtype": dtypes.float32}),
        ("Multinomial", [np.ones((1, 2)), np.array(3)], SEEDS | {"output_dtype": dtypes.int64}),
        (
            "EditDistance",
            [np.array([[0, 0]]), np.array([1]), np.array([1, 1])] * 2,
            {"normalize": False},
        ),
        ("MatrixExponential", [np.eye(2)], {}),
        ("StringLength", [TEXT], {"unit": "BYTE"}),
        ("Dilation2D", [np.ones((1, 3, 3, 1)), np.ones((2, 2, 1))], WINDOW),
    ],
)
def test_kernels_of_much_work_end_with_their_step(job: Any, op_type: str, inputs: list[Any], attrs: Any):
    context: Any = SimpleNamespace(
        attrs=attrs, output_dtypes=[dtypes.float32], input_dtypes=[], node_name="node"
    )
    make = registry.lookup(op_type).kernel
    assert make is not None
    kernel = make(context)
    kernel(*inputs)
    job.is_cancelled = True

    with pytest.raises(CancelledError):
        kernel(*inputs)
