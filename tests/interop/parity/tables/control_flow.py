"""Switch, Merge, Enter, Exit, NextIteration and LoopCond, of values and of references."""

from __future__ import annotations

from typing import Any

from tests.interop.parity.sweeps import COMPLEX, FLOATS, INTEGERS, SHAPES, sample
from tests.interop.parity.table import Back, Case, Node, Steps, case, const, node, unknown, variable

DTYPES = (*FLOATS, *COMPLEX, *INTEGERS, "bool", "string")
NUMBERS = ("float32", "float64", "int32", "int64", "float16", "complex64")
FRAME = {"frame_name": "loop"}


def value(name: str, *shape: int) -> Any:
    return sample(name, shape or (2, 3), 1)


def output(index: int) -> Steps:
    """Look at one output: the other one is dead."""
    return lambda op: [[op[index]]]


def switched(data: Any, pred: Any, prefix: str = "") -> Node:
    return node(f"{prefix}Switch", data, pred)


def invariant(data: Any) -> Node:
    return node("Enter", data, attrs={**FRAME, "is_constant": True})


class Loop:
    """A loop of so many rounds over one state, by nodes for values or (`prefix` Ref) for references.

    Attributes:
        is_on: whether there is another round; a LoopCond is to be made of it, and given to `close`.
        merged: the state at the beginning of a round.
    """

    def __init__(self, rounds: int, enter: Any, prefix: str = "") -> None:
        self._prefix = prefix
        self._count, self._back = Back(), Back()
        self._counter = node("Merge", [node("Enter", const(0), attrs=FRAME), self._count])
        self.is_on = node("Less", self._counter, invariant(const(rounds)))
        self.merged = node(f"{prefix}Merge", [enter, self._back])

    def going(self, cond: Any) -> Node:
        """The state: out of the loop, and into the round. The counter is counted."""
        counted = node("AddV2", node("Switch", self._counter, cond)[1], invariant(const(1)))
        self._count.node = node("NextIteration", counted)
        return node(f"{self._prefix}Switch", self.merged, cond)

    def goes_on_with(self, following: Node) -> None:
        self._back.node = following


def added(rounds: int, enter: Any, add: Any) -> Node:
    """A loop that adds to its state: what is to leave it."""
    loop = Loop(rounds, enter)
    going = loop.going(node("LoopCond", loop.is_on))
    loop.goes_on_with(node("NextIteration", node("AddV2", going[1], invariant(add))))
    return going


def leaving(name: str, rounds: int, *shape: int) -> Case:
    data = value(name, *shape)
    left = added(rounds, node("Enter", data, attrs=FRAME), data)
    return case("Exit", left[0], grad=False, note=f"{rounds} rounds")


def entering(name: str, rounds: int, **attrs: Any) -> Case:
    def steps(enter: Node) -> Any:
        return [[node("Exit", added(rounds, enter, value(name))[0])]]

    return case("Enter", value(name), attrs={**FRAME, **attrs}, steps=steps, note=f"{rounds} rounds")


def repeating(name: str, rounds: int) -> Case:
    """The back edge is seen through what leaves the loop."""
    loop = Loop(rounds, node("Enter", value(name), attrs=FRAME))
    going = loop.going(node("LoopCond", loop.is_on))

    def steps(back: Node) -> Any:
        loop.goes_on_with(back)
        return [[node("Exit", going[0])]]

    return case("NextIteration", node("AddV2", going[1], going[1]), steps=steps, note=f"{rounds} rounds")


def repeating_reference(name: str, rounds: int) -> Case:
    loop = Loop(rounds, node("RefEnter", variable(value(name)), attrs=FRAME), "Ref")
    going = loop.going(node("LoopCond", loop.is_on))

    def steps(back: Node) -> Any:
        loop.goes_on_with(back)
        return [[node("RefExit", going[0])]]

    changed = node("AssignAdd", going[1], invariant(value(name)))
    return case("RefNextIteration", changed, steps=steps, note=f"{rounds} rounds")


def deciding(name: str, rounds: int) -> Case:
    loop = Loop(rounds, node("Enter", value(name), attrs=FRAME))

    def steps(cond: Node) -> Any:
        going = loop.going(cond)
        loop.goes_on_with(node("NextIteration", node("AddV2", going[1], going[1])))
        return [[node("Exit", going[0])]]

    return case("LoopCond", loop.is_on, steps=steps, note=f"{rounds} rounds")


SWITCHES = [
    *(
        case("Switch", value(name), pred, steps=output(int(pred)), note=str(pred))
        for name in DTYPES
        for pred in (True, False)
    ),
    *(case("Switch", value("float32", *shape), True, steps=output(1)) for shape in SHAPES if shape),
    case("Switch", unknown(value("float32")), unknown(True), steps=output(1)),
    case("Switch", value("float32"), True, bad=True, note="what is dead cannot be fetched"),
    case("Switch", value("float32"), [True, False], bad=True),
    case("Switch", value("float32"), value("int32"), bad=True),
]


def merged(name: str, pred: bool, *shape: int) -> Case:
    both = switched(value(name, *shape), pred)
    return case("Merge", [both[0], both[1]], note=str(pred))


MERGES = [
    *(merged(name, pred) for name in DTYPES for pred in (True, False)),
    *(merged("float32", True, *shape) for shape in SHAPES if shape),
    case("Merge", [switched(value("float32"), True)[1], switched(value("float32", 4), True)[0]], grad=False),
    case(
        "Merge", [switched(value("float32"), True)[1], switched(value("float32", 2, 4), True)[0]], grad=False
    ),
    case(
        "Merge",
        [switched(unknown(value("float32")), True)[1], switched(value("float32", 2, 4), True)[0]],
        grad=False,
    ),
    case("Merge", [switched(value("float32"), True)[1], switched(value("int32"), True)[0]], bad=True),
    case("Merge", [switched(value("float32"), True)[0]], bad=True, note="nothing arrives"),
    case("Merge", [], bad=True),
]

LOOPS = [
    *(leaving(name, rounds) for name in NUMBERS for rounds in (0, 1, 5)),
    *(leaving("float32", 3, *shape) for shape in SHAPES if shape),
    case("Exit", node("Enter", value("float32"), attrs=FRAME), grad=False),
    *(entering(name, rounds) for name in NUMBERS for rounds in (0, 4)),
    *(entering("float32", 3, parallel_iterations=k) for k in (1, 2, 32)),
    case("Enter", value("float32"), bad=True, note="no name of a frame"),
    *(repeating(name, rounds) for name in NUMBERS for rounds in (0, 1, 6)),
    case("NextIteration", value("float32"), attrs={"T": "int32"}, bad=True),
    *(deciding(name, rounds) for rounds in (0, 1, 2, 3, 7, 30) for name in ("int32", "float32")),
    case("LoopCond", value("float32"), bad=True),
    case("LoopCond", [[True]], bad=True, note="no scalar"),
]

REFERENCES = [
    *(
        case(
            "RefSwitch",
            variable(value(name)),
            pred,
            steps=output(int(pred)),
            note=str(pred),
        )
        for name in ("float32", "float64", "int32", "int64", "bool", "string")
        for pred in (True, False)
    ),
    case("RefSwitch", variable(value("float32")), [True], bad=True),
    case("RefSwitch", value("float32"), True, bad=True, note="no variable"),
    *(
        case("RefMerge", [switched(variable(value(name)), pred, "Ref")[k] for k in (0, 1)], note=str(pred))
        for name in ("float32", "float64", "int32", "int64", "bool", "string")
        for pred in (True, False)
    ),
    case("RefMerge", [value("float32"), value("float32")], bad=True),
    *(case("RefIdentity", variable(value(name))) for name in DTYPES),
    case("RefIdentity", variable(value("float32", 0, 3))),
    case("RefIdentity", value("float32"), bad=True),
    *(
        case("RefSelect", index, [variable(value(name)), variable(value(name, 2, 3))])
        for name in ("float32", "float64", "int32", "int64", "string")
        for index in (0, 1)
    ),
    case("RefSelect", 0, [variable(value("float32")), variable(value("float32", 4))]),
    case("RefSelect", 2, [variable(value("float32"))], bad=True),
    case("RefSelect", value("float32"), [variable(value("float32"))], bad=True),
    *(case("RefExit", node("RefEnter", variable(value(name)), attrs=FRAME), grad=False) for name in DTYPES),
    case("RefExit", value("float32"), bad=True),
    *(
        case("RefEnter", variable(value(name)), attrs=FRAME, steps=lambda op: [[node("RefExit", op)]])
        for name in DTYPES
    ),
    case("RefEnter", value("float32"), attrs=FRAME, bad=True),
    *(repeating_reference(name, rounds) for name in NUMBERS for rounds in (0, 3)),
    case("RefNextIteration", value("float32"), bad=True),
]

CASES: list[Case] = [*SWITCHES, *MERGES, *LOOPS, *REFERENCES]
