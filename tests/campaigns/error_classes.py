"""Odd operands for every op of TensorFlow: the class of the error, or the shapes of the values, are TensorFlow's.

    python -m tests.campaigns.error_classes --first 0 --count 10000

The calls are those of the campaign `operands`, each alone in a graph, on the reference tier. TensorFlow runs the same graph in
a child; if it dies or lacks a kernel, nothing is compared. `accepted_differences` lists intended differences. An Unknown or
Internal error of ours is a finding whenever TensorFlow's is another.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from random import Random
from typing import Any

import numpy as np

from aioexec import errors
from aioexec.errors import OpError
from tests.campaigns import campaign
from tests.campaigns.accepted_differences import ACCEPTED
from tests.campaigns.operand_calls import UNKNOWN, Call, Leaf, all_calls, copied, described, mutate
from tests.campaigns.operand_runs import (
    BLOCKED_MS,
    TIMEOUT_MS,
    Builder,
    Built,
    ForeignExceptionError,
    Outcome,
    built_of,
)
from tests.campaigns.operands import from_tables, ops, runs
from tests.campaigns.tensorflow_child import DIED, Answer, Request, TensorFlowChild

_NOT_COMPARED = (
    "No OpKernel was registered",
    "is not available in GraphDef version",
    "codec can't decode",
    "Unsupported object type",
)
"""TensorFlow's messages for missing kernels or ops, and for strings refused by its Python code before operands are checked."""

_CANNOT_FEED = "Cannot feed"
"""Our message for an array that is no value of its dtype: some string arrays of the campaign contain numbers."""
OUR_FAULTS = frozenset({"UnknownError", "InternalError"})
NOTHING_TO_COMPARE = frozenset({DIED, "DeadlineExceededError", "ResourceExhaustedError"})


def case(seed: int) -> str | None:
    random = Random(seed)
    op_type = ops()[seed % len(ops())]
    if op_type.startswith("_") or op_type not in _theirs():
        return None
    base, _ = from_tables(op_type, random)
    call = copied(base)
    mutate(call, random)
    try:
        built = _built(call)
        if built is None:
            return None
        request = request_of(built)
        ours = _ours(built)
    except ForeignExceptionError as error:
        return f"{described(call)}: {error}"
    except OpError:
        return None  # a graph that cannot be exported
    theirs = _child().answer(request)
    return _difference(call, ours, theirs)


def _built(call: Call) -> Built | None:
    """The graph of a call; if that is refused when it is built, then with operands of unknown shapes."""
    built = built_of(lambda: Builder(call, None, "plain", taken=True).build())
    if isinstance(built, Outcome):
        for each in all_calls(call):
            for operand in each.operands():
                if isinstance(operand, Leaf):
                    operand.static = UNKNOWN
        built = built_of(lambda: Builder(call, None, "plain", taken=True).build())
    return None if isinstance(built, Outcome) else built


def request_of(built: Built) -> Request:
    steps = [[each.name for each in step] for step in built.steps]
    reads = [[each.name for each in built.reads]] if built.reads else []
    return Request(
        built.graph.as_graph_def().SerializeToString(),
        [op.name for op in built.init],
        [*steps, *reads],
        {tensor.name: value for tensor, value in built.feeds.items()},
        BLOCKED_MS if built.may_block else TIMEOUT_MS,
    )


def _ours(built: Built) -> Outcome:
    """The outcome here, in an empty working directory, as in TensorFlow's process: neither sees files of other cases."""
    run = runs()
    with tempfile.TemporaryDirectory(prefix="aioexec-classes-") as folder, contextlib.chdir(folder):
        return run.outcome(built, "off", 1)


def _difference(call: Call, ours: Outcome, theirs: Answer) -> str | None:
    told = f"{described(call)}: {ours}, but TensorFlow {theirs}"
    error = _canonical(ours.error)
    if error in OUR_FAULTS and error != theirs.error:
        return told
    if {error, theirs.error} & NOTHING_TO_COMPARE or any(each in theirs.message for each in _NOT_COMPARED):
        return None
    if _CANNOT_FEED in ours.message:
        return None
    if any(each.covers(call, error, ours.message, theirs.error, theirs.message) for each in ACCEPTED):
        return None
    if error == theirs.error:
        found: tuple[Any, ...] = tuple(np.shape(value) for value in ours.values if value is not None)
        if error or found == theirs.shapes or _is_by_chance(call):
            return None
    return told


def _canonical(name: str) -> str:
    """The class of TensorFlow's for one of ours: those of building and feeding are subclasses."""
    if not name:
        return ""
    return next(kind.__name__ for kind in getattr(errors, name).__mro__ if OpError in kind.__bases__)


def _is_by_chance(call: Call) -> bool:
    """Whether shapes are not comparable: of random choices, and of handles by reference, shown by TensorFlow as two names."""
    is_random = "Random" in call.op_type or "Sampler" in call.op_type
    return is_random or any(each.is_ref for each in call.definition.outputs)


@functools.cache
def _child() -> TensorFlowChild:
    return TensorFlowChild()


@functools.cache
def _theirs() -> frozenset[str]:
    """The ops TensorFlow has."""
    from tensorflow.python.framework import op_def_registry

    return frozenset(name for name in ops() if op_def_registry.get(name) is not None)


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
