"""Programs with calls, conditionals and loops of functions, differentiated with respect to a vector of two elements."""

from __future__ import annotations

from typing import Any

import aioexec as ax
from aioexec.graph.apply import apply_list_op
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.ops.functions.call_functions import If, While, partitioned_call
from aioexec.ops.functions.defun import Defun
from tests.gradients.programs import Program

D = ax.float64
COUNT = ax.int32
PROGRAMS: list[Program] = []


def program(build: Program) -> Program:
    PROGRAMS.append(build)
    return build


def less(bound: int) -> Any:
    """The condition of a loop that counts to a bound."""

    @Defun(COUNT, D, D)
    def c(i, a, b):
        return i < bound

    return c


def sines() -> Any:
    """The body of a loop that counts, in which a becomes sin(a) * b."""

    @Defun(COUNT, D, D)
    def b(i, a, b):
        return i + 1, ax.sin(a) * b, b

    return b


@program
def call(_: Any, x: Any) -> Any:
    @Defun(D)
    def f(a):
        return ax.sin(a) * a

    return partitioned_call([x], f)


@program
def call_by_name(_: Any, x: Any) -> Any:
    @Defun(D)
    def f(a):
        return ax.sin(a) * a, a * a

    return f(x)


@program
def nested_call(_: Any, x: Any) -> Any:
    @Defun(D)
    def g(a):
        return ax.exp(a) * x

    @Defun(D)
    def f(a):
        return g(ax.sin(a)) * a

    return f(x)


@program
def conditional(_: Any, x: Any) -> Any:
    @Defun(D)
    def t(a):
        return ax.sin(a) * a

    @Defun(D)
    def e(a):
        return ax.exp(a) * ax.cos(a) * a

    return If(ax.reduce_sum(x) > 1.0, [x * x], t, e)


@program
def choice(_: Any, x: Any) -> Any:
    @Defun(D)
    def a(v):
        return ax.sin(v) * v

    @Defun(D)
    def b(v):
        return ax.exp(v) * v

    @Defun(D)
    def c(v):
        return v

    for f in (a, b, c):
        f.add_to_graph(ax.get_default_graph())
    i = ax.cast(ax.reduce_sum(x), COUNT)
    return apply_list_op("Case", i, [x * x], Tout=[D], branches=[NameAttrList(f.name) for f in (a, b, c)])


@program
def loop(_: Any, x: Any) -> Any:
    return While([ax.constant(0), x, x * x], less(4), sines())[1]


@program
def nested_loops(_: Any, x: Any) -> Any:
    @Defun(COUNT, D, D)
    def bb(i, a, b):
        return i + 1, While([i, a, b * a], less(3), sines())[1] + a, b

    return While([ax.constant(0), x, x * x], less(3), bb)[1]


@program
def conditional_in_loop(_: Any, x: Any) -> Any:
    @Defun(D, D)
    def t(a, b):
        return ax.sin(a) * a * b

    @Defun(D, D)
    def e(a, b):
        return ax.exp(a) * ax.cos(b) * a

    @Defun(COUNT, D, D)
    def b(i, a, b):
        return i + 1, If(ax.equal(i % 2, 0), [a, b], t, e)[0], b

    return While([ax.constant(0), x, x * x], less(4), b)[1]


@program
def loop_in_conditional(_: Any, x: Any) -> Any:
    @Defun(D)
    def t(a):
        return While([ax.constant(0), a, a * a], less(4), sines())[1]

    @Defun(D)
    def e(a):
        return ax.exp(a) * a

    return If(ax.reduce_sum(x) > 1.0, [x * x], t, e)


@program
def call_in_dataflow_loop(_: Any, x: Any) -> Any:
    @Defun(D)
    def f(a):
        return ax.cond(ax.reduce_sum(a) > 1.0, lambda: ax.sin(a) * a, lambda: ax.exp(a))

    return ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, f(a) * x), [0, x])[1]


@program
def functional_loop_in_branch(_: Any, x: Any) -> Any:
    return ax.cond(
        ax.reduce_sum(x) > 1.0, lambda: While([ax.constant(0), x, x * x], less(4), sines())[1], lambda: x
    )
