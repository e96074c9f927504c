"""Odd operands for every op TensorFlow has: the class of the error, or the shapes of the values, are TensorFlow's.

    python -m tests.campaigns.error_classes --first 0 --count 10000

The calls are those of the campaign `operands`, each alone in a graph, on the reference tier. TensorFlow runs the same graph in
a child, and where it dies or lacks a kernel there is nothing to compare. `ACCEPTED` has the ops that differ on purpose.
"""

from __future__ import annotations

import functools
from random import Random
from typing import Any

import numpy as np

from aioexec.errors import OpError
from tests.campaigns import campaign
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

ACCEPTED: dict[str, str] = {
    "Barrier": "components of any shape are accepted",
    "Enter NextIteration RefEnter RefNextIteration": "an incomplete loop is refused",
    "RefMerge": "which input comes first is by chance",
    "MutableDenseHashTable": "the deleted key of old graphs may be missing",
    "Const": "a value in another dtype is cast when the graph is built",
    "Variable VariableV2": "names of containers are not checked",
    "BatchToSpaceND": "the length of the blocks need not be known when the graph is built",
    "ComplexAbs": "the output may be wider than the parts of the input",
    "InvGrad ReciprocalGrad RsqrtGrad SqrtGrad TanhGrad": "operands broadcast, or are refused",
    "Conv2D Conv2DBackpropInput MaxPoolGrad DepthwiseConv2dNativeBackpropFilter": "layouts that TensorFlow lacks on CPUs",
    "FusedBatchNormV3 FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3": "shapes of reserved outputs",
    "SelfAdjointEigV2 Svd": "shapes of outputs that are not asked for",
}
"""Ops whose outcomes may differ from TensorFlow's, and the reason."""

_NOT_COMPARED = (
    "No OpKernel was registered",
    "is not available in GraphDef version",
    "container contains invalid characters",
    "out of range for an int32",
    "codec can't decode",
    "Unsupported object type",
)
"""What TensorFlow says where it lacks a kernel or refuses names, wide attributes and strings before it looks at operands."""

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
        ours = runs().outcome(built, "off", 1)
    except ForeignExceptionError as error:
        return f"{described(call)}: {error}"
    except OpError:
        return None  # a graph that cannot be exported
    theirs = _child().answer(request)
    return _difference(op_type, call, ours, theirs)


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


def _difference(op_type: str, call: Call, ours: Outcome, theirs: Answer) -> str | None:
    if {ours.error, theirs.error} & NOTHING_TO_COMPARE or any(
        each in theirs.message for each in _NOT_COMPARED
    ):
        return None
    if any(op_type in names.split() for names in ACCEPTED):
        return None
    if ours.error == theirs.error:
        found: tuple[Any, ...] = tuple(np.shape(value) for value in ours.values if value is not None)
        if ours.error or found == theirs.shapes or _is_by_chance(call):
            return None
    return f"{described(call)}: {ours}, but TensorFlow {theirs}"


def _is_by_chance(call: Call) -> bool:
    """Whether shapes say nothing: of random choices, and of handles by reference, which TensorFlow shows as two names."""
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
