"""Random graphs: every tier yields NumPy's values, for random feeds, fetches, variables, aliases and breaks."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.tiers import TIERS, Ops, Tier, constant, feed, graph, op, read, reference, resource

SHAPES = [(), (1,), (3,), (2, 3), (6,), (1, 3), (2, 1)]
CHOICES = [
    "add", "mul", "neg", "reshape", "identity", "break", "assign", "assign_add", "read", "ref_add", "ref_read",
    "shape", "after", "transpose", "string", "where",
]  # fmt: skip


class Model:
    """Builds a graph step by step, and computes the expected values."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.tensors: list[tuple[Any, Any]] = []  # float32 tensors and their values
        self.extra: list[tuple[Any, Any]] = []  # tensors of other dtypes
        self.last: Any = None  # the last operation that touched a variable: the next waits for it
        self.content: dict[str, np.ndarray] = {}
        self.feeds: dict[Any, np.ndarray] = {}

    def draw(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def pick(self) -> tuple[Any, np.ndarray]:
        return self.data.draw(st.sampled_from(self.tensors))

    def keep(self, tensor: Any, value: Any) -> None:
        self.tensors.append((tensor, np.asarray(value, np.float32)))

    def build(self, steps: int) -> None:
        rng = np.random.default_rng(self.data.draw(st.integers(0, 1000)))
        for _ in range(2):
            shape = self.draw(*SHAPES)
            x = feed([None] * len(shape) if self.draw(True, False) else shape)
            self.feeds[x] = rng.integers(-3, 4, shape).astype(np.float32)
            self.keep(x, self.feeds[x])
        self.keep(constant([1.0, 2.0, 3.0]), [1, 2, 3])
        self.variable, self.reference = resource([3]), reference([3])
        self.init = [
            op("AssignVariableOp", self.variable, constant([1.0, 1.0, 1.0])),
            op("Assign", self.reference, constant([2.0, 2.0, 2.0])).op,
        ]
        self.content = {"resource": np.ones(3, np.float32), "reference": np.full(3, 2, np.float32)}
        for _ in range(steps):
            getattr(self, f"do_{self.draw(*CHOICES)}")()

    def then(self, make: Any) -> Any:
        """A node after everything that touched a variable so far."""
        with (
            self.last.graph.control_dependencies([self.last])
            if self.last is not None
            else graph_of(self.variable)
        ):
            made = make()
        self.last = made.op if hasattr(made, "op") and not hasattr(made, "outputs") else made
        return made

    def do_add(self) -> None:
        (a, x), (b, y) = self.pick(), self.pick()
        try:
            value = x + y
        except ValueError:
            return
        self.keep(op("Add", a, b), value)

    def do_mul(self) -> None:
        a, x = self.pick()
        self.keep(op("Mul", a, constant(0.5)), x * np.float32(0.5))

    def do_neg(self) -> None:
        a, x = self.pick()
        self.keep(op("Neg", a), -x)

    def do_reshape(self) -> None:
        a, x = self.pick()
        self.keep(op("Reshape", a, np.array([-1], np.int32)), x.reshape(-1))

    def do_transpose(self) -> None:
        a, x = self.pick()
        if x.ndim == 2:
            self.keep(op("Transpose", a, np.array([1, 0], np.int32)), x.T)

    def do_identity(self) -> None:
        a, x = self.pick()
        self.keep(op("Identity", a), x)

    def do_break(self) -> None:
        a, x = self.pick()
        self.keep(op(self.draw("TestBreak", "TestView"), a), x)

    def do_shape(self) -> None:
        a, x = self.pick()
        self.extra.append((op("Shape", a), np.array(x.shape, np.int32)))

    def do_string(self) -> None:
        a, x = self.pick()
        self.extra.append((op("Identity", op("TestText", a)), np.array(repr(x.tolist()).encode(), object)))

    def do_where(self) -> None:
        """A data-dependent shape, and consumers of it."""
        a, x = self.pick()
        if x.ndim:
            found = op("TestPositive", a)
            self.extra.append((op("Mul", found, constant(2.0)), 2 * x[x > 0]))

    def do_after(self) -> None:
        a, x = self.pick()
        if self.last is not None:
            with a.graph.control_dependencies([self.last]):
                self.keep(op("Mul", a, constant(1.0)), x)

    def three(self) -> tuple[Any, np.ndarray]:
        fitting = [(a, x) for a, x in self.tensors if x.shape == (3,)]
        return self.data.draw(st.sampled_from(fitting))

    def do_assign(self) -> None:
        a, x = self.three()
        self.then(lambda: op("AssignVariableOp", self.variable, a))
        self.content["resource"] = x

    def do_assign_add(self) -> None:
        a, x = self.three()
        kind = self.draw("AssignAddVariableOp", "TestBreakAdd")
        self.then(lambda: op(kind, self.variable, a))
        self.content["resource"] = self.content["resource"] + x

    def do_read(self) -> None:
        self.keep(self.then(lambda: read(self.variable)), self.content["resource"])

    def do_ref_add(self) -> None:
        a, x = self.three()
        self.then(lambda: op("AssignAdd", self.reference, a))
        self.content["reference"] = self.content["reference"] + x

    def do_ref_read(self) -> None:
        """A read, and a control edge from it: only then is an Identity a snapshot whatever is written later."""
        made = self.then(lambda: op(self.draw("Identity", "Neg"), self.reference))
        self.then(lambda: op("NoOp"))
        content = self.content["reference"]
        self.keep(made, content if made.op.type == "Identity" else -content)


def graph_of(tensor: Any) -> Any:
    return tensor.graph.control_dependencies([])


def add_ops(ops: Ops) -> None:
    ops.broken("TestBreak", lambda x: x.copy())
    ops.broken("TestView", lambda x: x[...])
    ops.add(
        "TestText(x:T) -> (y:string) [T:type] {stateful}",
        lambda x: np.array(repr(x.tolist()).encode(), object),
        shape=lambda context: [()],
    )
    ops.add(
        "TestPositive(x:T) -> (y:T) [T:type]",
        lambda x: x[x > 0],
        shape=lambda context: [(None,)],
        dynamic_shape=True,
    )
    ops.add(
        "TestBreakAdd(v:resource, x:T) -> () [T:type] {stateful}",
        lambda variable, x: variable.update(lambda present: present + x),
        shape=lambda context: [],
        writes=(0,),
        reads=(0,),
    )


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_tier_gives_what_numpy_gives(ops: Ops, data: st.DataObject):
    if not ops._names:
        add_ops(ops)
    with graph() as g:
        model = Model(data)
        model.build(data.draw(st.integers(1, 25)))
    candidates = model.tensors + model.extra
    chosen = data.draw(st.lists(st.sampled_from(range(len(candidates))), min_size=1, max_size=6))
    fetches = [candidates[k][0] for k in chosen]
    targets = [] if model.last is None else [model.last]

    async def run(tier: Tier) -> None:
        async with tier.session(g) as session:
            for _ in range(2):
                await session.run(model.init)
                results, _ = await session.run([fetches, targets], model.feeds)
                for k, result in zip(chosen, results, strict=True):
                    np.testing.assert_array_equal(
                        result, candidates[k][1], err_msg=f"{tier.name}: {candidates[k][0]}"
                    )
                    assert np.shape(result) == candidates[k][1].shape
                contents = await session.run([read(model.variable), op("Identity", model.reference)])
                np.testing.assert_array_equal(contents[0], model.content["resource"], err_msg=tier.name)
                np.testing.assert_array_equal(contents[1], model.content["reference"], err_msg=tier.name)

    for name in TIERS:
        tier = Tier(name)
        with tier.chosen():
            asyncio.run(run(tier))
