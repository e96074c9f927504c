"""Queues of every kind and version: enqueues, dequeues, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, case, const, node, unknown

DTYPES = [
    "float32",
    "float64",
    "int32",
    "int64",
    "uint8",
    "bool",
    "string",
    "complex64",
    "float16",
    "bfloat16",
]
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3)]
EMPTY: list[tuple[int, ...]] = [(0,), (0, 2)]
"""Shapes of elements that TensorFlow crashes on when there are many at once."""
VERSIONS = ["", "V2"]


@dataclass(frozen=True)
class Kind:
    """A kind of queue: what its node is called, and what it is given besides types and shapes."""

    name: str
    attrs: tuple[tuple[str, Any], ...] = ()
    has_priority: bool = False

    def make(self, version: str, dtypes: Sequence[str], shapes: Any = (), **more: Any) -> Node:
        attrs = {"component_types": list(dtypes), "shapes": list(shapes), **dict(self.attrs), **more}
        return node(f"{self.name}{version}", attrs=attrs)

    def element(self, *components: Any, priority: int = 1) -> list[Any]:
        return [np.int64(priority), *components] if self.has_priority else list(components)

    def batch(self, *components: Any) -> list[Any]:
        count = len(components[0])
        return [np.arange(count, 0, -1), *components] if self.has_priority else list(components)

    def types(self, dtypes: Sequence[str]) -> dict[str, Any]:
        return {"component_types": ["int64", *dtypes] if self.has_priority else list(dtypes)}


FIFO = Kind("FIFOQueue")
PADDING = Kind("PaddingFIFOQueue")
SHUFFLE = Kind("RandomShuffleQueue", (("seed", 3), ("seed2", 7), ("min_after_dequeue", 1)))
PRIORITY = Kind("PriorityQueue", has_priority=True)
KINDS = [FIFO, PADDING, SHUFFLE, PRIORITY]


def verb(name: str, version: str, queue: Node, *inputs: Any, **attrs: Any) -> Node:
    return node(f"{name}{version}", queue, *inputs, attrs=attrs)


def making(kind: Kind, version: str) -> list[Case]:
    """Queues, filled and emptied in two ways."""
    cases = [through(kind, version, [dtype], [()], 4) for dtype in DTYPES]
    cases += [through(kind, version, ["float32"], [shape], 3) for shape in SHAPES]
    cases += [singly(kind, version, shape) for shape in EMPTY]
    cases.append(through(kind, version, ["int32", "string", "float32"], [(), (2,), (1, 2)], 5))
    cases.append(through(kind, version, ["int32"], [()], 3, capacity=3))
    cases.append(through(kind, version, ["int32"], [()], 3, shared_name="one", container="there"))
    for name, bad in (
        ("a shape too many", {"shapes": [(), ()]}),
        ("a bad container", {"container": "not/a name!"}),
        ("a bad name", {"shared_name": "_x"}),
    ):
        attrs = {"component_types": ["int32"], "shapes": [()], **dict(kind.attrs), **bad}
        cases.append(
            case(
                f"{kind.name}{version}",
                attrs=attrs,
                bad=True,
                note=name,
                steps=lambda queue: [[verb("QueueSize", version, queue)]],
            )
        )
    return cases


def through(kind: Kind, version: str, dtypes: Sequence[str], shapes: Any, count: int, **attrs: Any) -> Case:
    batch = kind.batch(*[sample(dtype, (count, *shape)) for dtype, shape in zip(dtypes, shapes, strict=True)])
    types = kind.types(dtypes)

    def steps(queue: Node) -> Sequence[Sequence[Any]]:
        many = verb("QueueDequeueMany", version, queue, const(count - 2), **types)
        one = verb("QueueDequeue", version, queue, **types)
        return [
            [verb("QueueEnqueueMany", version, queue, batch)],
            [verb("QueueSize", version, queue)],
            [one[k] for k in range(len(batch))],
            [many[k] for k in range(len(batch))],
            [verb("QueueSize", version, queue)],
        ]

    return case(
        f"{kind.name}{version}",
        attrs={"component_types": list(dtypes), "shapes": list(shapes), **dict(kind.attrs), **attrs},
        steps=steps,
    )


def singly(kind: Kind, version: str, shape: tuple[int, ...]) -> Case:
    element = kind.element(sample("float32", shape))
    return case(
        f"{kind.name}{version}",
        attrs={"component_types": ["float32"], "shapes": [shape], **dict(kind.attrs)},
        steps=lambda queue: [
            [verb("QueueEnqueue", version, queue, element)],
            [verb("QueueEnqueue", version, queue, element)],
            [verb("QueueDequeue", version, queue, **kind.types(["float32"]))[len(element) - 1]],
            [verb("QueueSize", version, queue)],
        ],
    )


def padding(version: str) -> list[Case]:
    """Batches of elements of different sizes."""
    cases = []
    for dtype in ("float32", "int64", "string", "bool"):
        for first, second, dims in (
            ((1,), (3,), (None,)),
            ((2, 1), (1, 3), (None, None)),
            ((0, 2), (2, 2), (None, 2)),
        ):
            elements = [sample(dtype, first), sample(dtype, second, 5)]
            cases.append(
                case(
                    f"PaddingFIFOQueue{version}",
                    attrs={"component_types": [dtype], "shapes": [dims]},
                    steps=lambda queue, elements=elements, dtype=dtype: [
                        [verb("QueueEnqueue", version, queue, [elements[0]])],
                        [verb("QueueEnqueue", version, queue, [elements[1]])],
                        [verb("QueueDequeueMany", version, queue, const(2), component_types=[dtype])],
                        [verb("QueueDequeueMany", version, queue, const(0), component_types=[dtype])],
                    ],
                )
            )
    cases += [
        case(
            f"PaddingFIFOQueue{version}",
            attrs={"component_types": ["int32"], "shapes": shapes},
            bad=True,
            steps=lambda queue: [[verb("QueueSize", version, queue)]],
        )
        for shapes in ([], [None])
    ]
    return cases


def shuffling(version: str) -> list[Case]:
    """The choices of several seeds, and what must be left."""
    cases = []
    for seed, seed2, least in ((1, 2, 0), (87654321, 5, 3), (0, 9, 1), (2**40, -1, 2)):
        cases.append(
            case(
                f"RandomShuffleQueue{version}",
                attrs={
                    "component_types": ["int32"],
                    "shapes": [()],
                    "seed": seed,
                    "seed2": seed2,
                    "min_after_dequeue": least,
                },
                steps=lambda queue, least=least: [
                    [verb("QueueEnqueueMany", version, queue, [np.arange(40, dtype=np.int32)])],
                    [verb("QueueDequeueMany", version, queue, const(20), component_types=["int32"])],
                    [verb("QueueDequeueUpTo", version, queue, const(10 - least), component_types=["int32"])],
                    [verb("QueueClose", version, queue)],
                    [verb("QueueDequeueUpTo", version, queue, const(30), component_types=["int32"])],
                ],
            )
        )
    for capacity, least in ((2, 2), (2, 3), (5, -1)):
        cases.append(
            case(
                f"RandomShuffleQueue{version}",
                attrs={"component_types": ["int32"], "capacity": capacity, "min_after_dequeue": least},
                bad=True,
                steps=lambda queue: [[verb("QueueSize", version, queue)]],
            )
        )
    return cases


# Verbs, each on every kind


def enqueues(version: str) -> list[Case]:
    cases = []
    for kind in KINDS:
        for shape in SHAPES:
            queue = kind.make(version, ["float32"], [shape])
            for feed in (unknown, np.asarray):
                one = kind.element(feed(sample("float32", shape)))
                cases.append(done("QueueEnqueue", version, kind, queue, one, ["float32"]))
            for count in (3, 0):
                many = kind.batch(sample("float32", (count, *shape)))
                cases.append(done("QueueEnqueueMany", version, kind, queue, many, ["float32"]))
        queue = kind.make(version, ["float32"], [(2,)])
        cases += refused("QueueEnqueue", version, queue, kind.element(unknown(sample("float32", (3,)))))
        cases += refused("QueueEnqueue", version, queue, kind.element(unknown(sample("float32", (1, 2)))))
        cases += refused("QueueEnqueue", version, queue, kind.element(sample("int32", (2,))))
        cases += refused("QueueEnqueue", version, queue, kind.element(sample("float32", (2,)), np.float32(1)))
        cases += refused("QueueEnqueueMany", version, queue, kind.batch(sample("float32", (2, 3))))
        cases += refused("QueueEnqueueMany", version, queue, kind.batch(sample("float64", (2, 2))))
        cases += refused("QueueEnqueueMany", version, queue, kind.element(unknown(np.float32(1))))
        for name, components in (
            ("QueueEnqueue", kind.element(sample("float32", (2,)))),
            ("QueueEnqueueMany", kind.batch(sample("float32", (2, 2)))),
        ):
            cases += refused(name, version, queue, components, before=["QueueClose"])
            cases += refused(name, version, queue, components, timeout_ms=5)
    return cases


def done(
    name: str, version: str, kind: Kind, queue: Node, components: Any, dtypes: Sequence[str], **attrs: Any
) -> Case:
    """The elements of an enqueue are in the queue."""

    def steps(enqueue: Node) -> Sequence[Sequence[Any]]:
        taken = verb("QueueDequeueUpTo", version, queue, const(9), **kind.types(dtypes))
        holds_none = name == "QueueEnqueueMany" and len(components[-1]) == 0
        last = [] if kind is PRIORITY or holds_none else [[taken[k] for k in range(len(components))]]
        return [
            [enqueue],
            [verb("QueueSize", version, queue)],
            [enqueue],
            [verb("QueueClose", version, queue)],
            [verb("QueueSize", version, queue), verb("QueueIsClosed", version, queue)],
            *last,
        ]

    return case(f"{name}{version}", queue, components, attrs=attrs, steps=steps)


def refused(
    name: str, version: str, queue: Node, *inputs: Any, before: Sequence[str] = (), **attrs: Any
) -> list[Case]:
    """A verb that fails, after others."""
    return [
        case(
            f"{name}{version}",
            queue,
            *inputs,
            attrs=attrs,
            bad=True,
            steps=lambda failing: [*[[verb(each, version, queue)] for each in before], [failing]],
        )
    ]


def dequeues(version: str) -> list[Case]:
    cases = []
    for kind in KINDS:
        for dtypes, shapes in ((["float32"], [()]), (["string", "int32"], [(2,), ()]), (["bool"], [(3,)])):
            queue = kind.make(version, dtypes, shapes)
            batch = kind.batch(*[sample(d, (6, *s)) for d, s in zip(dtypes, shapes, strict=True)])
            fill = [verb("QueueEnqueueMany", version, queue, batch)]
            for name, inputs in (
                ("QueueDequeue", ()),
                ("QueueDequeueMany", (const(2),)),
                ("QueueDequeueMany", (unknown(np.int32(3)),)),
                ("QueueDequeueMany", (const(0),)),
                ("QueueDequeueUpTo", (const(2),)),
                ("QueueDequeueUpTo", (unknown(np.int32(3)),)),
                ("QueueDequeueUpTo", (const(0),)),
            ):
                cases.append(taken(name, version, kind, queue, inputs, dtypes, fill))
        cases += failing_dequeues(kind, version)
    for kind in (FIFO, PADDING, SHUFFLE):
        queue = kind.make(version, ["int32"], [()])
        fill = [verb("QueueEnqueueMany", version, queue, kind.batch(sample("int32", (3,))))]
        after = [*fill, verb("QueueClose", version, queue)]
        cases.append(taken("QueueDequeueUpTo", version, kind, queue, (const(5),), ["int32"], after))
    return cases


def taken(
    name: str,
    version: str,
    kind: Kind,
    queue: Node,
    inputs: Any,
    dtypes: Sequence[str],
    before: Sequence[Node],
) -> Case:
    count = len(kind.types(dtypes)["component_types"])
    return case(
        f"{name}{version}",
        queue,
        *inputs,
        attrs=kind.types(dtypes),
        steps=lambda dequeue: [
            *[[each] for each in before],
            [dequeue[k] for k in range(count)],
            [verb("QueueSize", version, queue)],
        ],
    )


def failing_dequeues(kind: Kind, version: str) -> list[Case]:
    cases = []
    types = kind.types(["float32"])
    for name, counts in (("QueueDequeueMany", [2]), ("QueueDequeueUpTo", [2]), ("QueueDequeue", [])):
        queue = kind.make(version, ["float32"], [(2,)])
        cases += refused(name, version, queue, *map(const, counts), before=["QueueClose"], **types)
        other = {"component_types": ["int32"]}
        cases += refused(name, version, queue, *map(const, counts), **other)
        cases += refused(name, version, queue, *map(const, counts), **types, timeout_ms=3)
        if counts:
            cases += refused(name, version, queue, unknown(np.int32(-1)), **types)
            cases += refused(name, version, queue, const(-1), **types)
    if kind in (FIFO, SHUFFLE):
        shapeless = kind.make(version, ["float32"])
        for name in ("QueueDequeueMany", "QueueDequeueUpTo"):
            cases += refused(name, version, shapeless, const(1), **types)
    return cases


def looking(version: str) -> list[Case]:
    """Sizes, and closing in both ways."""
    cases = []
    for kind in KINDS:
        queue = kind.make(version, ["int32"], [()])
        fill = verb("QueueEnqueueMany", version, queue, kind.batch(sample("int32", (4,))))
        close = {
            flag: verb("QueueClose", version, queue, cancel_pending_enqueues=flag) for flag in (False, True)
        }
        for name in ("QueueSize", "QueueIsClosed"):
            cases += [
                case(
                    f"{name}{version}",
                    queue,
                    steps=lambda look, before=before: [*[[each] for each in before], [look]],
                )
                for before in ([], [fill], [close[False]], [fill, fill, close[True]])
            ]
        for flag in (False, True):
            look = [verb("QueueSize", version, queue), verb("QueueIsClosed", version, queue)]
            for before in ([], [fill]):
                cases.append(
                    case(
                        f"QueueClose{version}",
                        queue,
                        attrs={"cancel_pending_enqueues": flag},
                        steps=lambda closing, before=before, look=look: [
                            *[[e] for e in before],
                            [closing],
                            look,
                        ],
                    )
                )
        cases += refused("QueueClose", version, queue, before=["QueueClose"])
    return cases


CASES: list[Case] = []
for each in VERSIONS:
    for family in KINDS:
        CASES += making(family, each)
    CASES += [*padding(each), *shuffling(each), *enqueues(each), *dequeues(each), *looking(each)]
