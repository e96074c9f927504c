"""A sample of ops with state: variables and queues."""

from __future__ import annotations

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, node, resource, unknown, variable

X = sample("float32", (4, 3), 5)

CASES: list[Case] = [
    case("AssignAdd", variable([1.0, 2.0]), [0.5, 0.25]),
    case("AssignAdd", variable([1.0, 2.0]), [0.5], bad=True),
    case("AssignAddVariableOp", resource([1.0, 2.0]), [0.5, 0.25]),
    case("ReadVariableOp", resource(X), attrs={"dtype": "float32"}),
    case("ResourceGather", resource(X), [[0, 3]], attrs={"dtype": "float32"}),
    case("ResourceGather", resource(X), [[0, 4]], attrs={"dtype": "float32"}, bad=True),
    case("GatherV2", X, [1, 1, 0], const(0)),
    case("GatherV2", unknown(X), [1, 1, 0], const(0)),
    case("ConcatV2", [X, X], const(1)),
    case("ConcatV2", [X, X[:2]], const(1), bad=True),
    case("Split", const(0), X, attrs={"num_split": 2}),
    case(
        "FIFOQueueV2",
        attrs={"component_types": ["int32"]},
        steps=lambda queue: [
            [node("QueueEnqueueV2", queue, [1])],
            [node("QueueSizeV2", queue)],
            [node("QueueDequeueV2", queue, attrs={"component_types": ["int32"]})],
        ],
    ),
]
