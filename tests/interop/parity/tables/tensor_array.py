"""TensorArrays and stacks: writes and reads within one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, Node, Output, case, const, given, node, partly, unknown

DTYPES = [
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool", "string"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]
X = sample("float32", (4, 2), 3)
ONE, TWO = [0.5, -1.5], [2.0, 0.25]
EMPTY_ROWS = np.zeros((0, 2), np.float32)
Flow = Node | Output


def array(size: Any = 4, dtype: str = "float32", **attrs: Any) -> Node:
    return node("TensorArrayV3", size, attrs={"dtype": dtype} | attrs)


def written(made: Node, index: int, value: Any, flow: Flow | None = None) -> Node:
    return node("TensorArrayWriteV3", made, index, value, made[1] if flow is None else flow)


def scattered(made: Node, rows: Any, indices: Any = (0, 1, 2, 3)) -> Node:
    return node("TensorArrayScatterV3", made, np.array(indices, np.int32), rows, made[1])


def read(made: Node, index: int, flow: Flow, dtype: str = "float32", after: Any = ()) -> Node:
    return node("TensorArrayReadV3", made, index, flow, attrs={"dtype": dtype}, after=after)


def gathered(made: Node, flow: Flow, indices: Any = (0, 1, 2, 3), dtype: str = "float32") -> Node:
    return node("TensorArrayGatherV3", made, np.array(indices, np.int32), flow, attrs={"dtype": dtype})


def size_of(made: Node, flow: Flow) -> Node:
    return node("TensorArraySizeV3", made, flow)


def dtypes() -> Iterator[Case]:
    for dtype in DTYPES:
        of = {"dtype": dtype}
        rows = sample(dtype, (4, 2), 3)
        made = array(dtype=dtype)
        yield case("TensorArrayV3", 3, attrs=of, steps=lambda made: [[size_of(made, made[1])]])
        yield case("TensorArrayReadV3", made, 1, written(made, 1, rows), attrs=of)
        yield case("TensorArrayGatherV3", made, [3, 0], scattered(made, rows), attrs=of)
        yield case("TensorArrayConcatV3", made, scattered(made, rows), attrs=of)
        yield case(
            "TensorArrayWriteV3",
            made,
            2,
            rows,
            made[1],
            steps=given(lambda flow, made, dtype: [[flow, read(made, 2, flow, dtype)]], made, dtype),
        )
        yield case(
            "TensorArrayScatterV3",
            made,
            [2, 0, 1, 3],
            rows,
            made[1],
            steps=given(lambda flow, made, dtype: [[flow, gathered(made, flow, dtype=dtype)]], made, dtype),
        )
        two = array(2, dtype)
        yield case(
            "TensorArraySplitV3",
            two,
            rows,
            [3, 1],
            two[1],
            steps=given(lambda flow, two, dtype: [[read(two, 1, flow, dtype), flow]], two, dtype),
        )
        yield case("TensorArraySizeV3", made, made[1])
        if dtype not in ("bool", "string"):
            shaped = array(dtype=dtype, element_shape=(2,))
            yield case("TensorArrayReadV3", shaped, 1, shaped[1], attrs=of, note="zeros")
            yield case(
                "TensorArrayGradV3",
                made,
                scattered(made, rows),
                attrs={"source": "gradients"},
                steps=given(lambda found, dtype: [[read(found, 0, found[1], dtype)]], dtype),
            )


def shapes() -> Iterator[Case]:
    attrs: dict[str, Any]
    of = {"dtype": "float32"}
    for shape in ((), (2,), (2, 3), (0,), (2, 0)):
        element = sample("float32", shape, 1)
        unsized = {"element_shape": (None,) * len(shape)}
        for attrs in ({}, {"element_shape": shape}, {"identical_element_shapes": True}, unsized):
            known = {} if "identical_element_shapes" in attrs else {"element_shape": shape}
            made = array(2, **attrs)
            full = written(made, 1, element, written(made, 0, element))
            yield case("TensorArrayReadV3", made, 1, full, attrs=of)
            yield case("TensorArrayGatherV3", made, [1, 0], full, attrs=of | known)
        made = array(2)
        flow = node("TensorArrayScatterV3", made, [0, 1], unknown([element, element]), made[1])
        yield case("TensorArrayGatherV3", made, partly(np.array([0], np.int32), [None]), flow, attrs=of)
        yield case("TensorArrayReadV3", made, unknown(np.array(1, np.int32)), flow, attrs=of)
        if shape:
            yield case("TensorArrayConcatV3", made, flow, attrs=of | {"element_shape_except0": shape[1:]})
    made = array(3, element_shape=(None, 2))
    yield case("TensorArrayReadV3", made, 0, written(made, 0, X), attrs=of)
    prepended = node(
        "TensorArrayGradWithShape", made, written(made, 0, X), const([5]), attrs={"source": "gradients"}
    )
    yield case(
        "TensorArrayReadV3",
        prepended,
        0,
        prepended[1],
        attrs=of,
        grad=False,
        note="zeros, a row for each of five",
    )


def with_gradients() -> Iterator[Case]:
    of = {"dtype": "float32"}
    keeps = array(clear_after_read=False)
    made = array()
    flow = written(made, 0, ONE, written(made, 3, TWO))
    yield case("TensorArrayReadV3", made, 3, flow, attrs=of)
    yield case("TensorArrayGatherV3", made, [3, 0], flow, attrs=of)
    yield case("TensorArrayGatherV3", keeps, [3, 0, 3], scattered(keeps, X), attrs=of)
    two = array(2)
    flow = written(two, 0, [1.0, 2.0], written(two, 1, [3.0]))
    yield case("TensorArrayConcatV3", two, flow, attrs=of)
    cut = node("TensorArraySplitV3", two, [1.0, 2.0, 3.0], [1, 2], two[1])
    yield case("TensorArrayReadV3", two, 1, cut, attrs=of)
    yield case("TensorArrayConcatV3", two, cut, attrs=of)
    flow = scattered(keeps, X)
    yield case("TensorArrayWriteV3", two, 0, ONE, two[1], steps=lambda w: [[read(two, 0, w)]])
    yield case("TensorArrayReadV3", keeps, 2, flow, attrs=of)


def refused() -> Iterator[Case]:
    attrs: dict[str, Any]
    value: Any
    of = {"dtype": "float32"}
    for dynamic, index in ((False, 4), (False, -1), (True, -1)):
        made = array(dynamic_size=dynamic)
        yield case("TensorArrayWriteV3", made, index, ONE, made[1], bad=True)
        yield case("TensorArrayReadV3", made, index, made[1], attrs=of, bad=True)
        yield case("TensorArrayScatterV3", made, [index], [ONE], made[1], bad=True)
        yield case("TensorArrayGatherV3", made, [index], made[1], attrs=of, bad=True)
    made = array()
    once = written(made, 0, ONE)
    yield case("TensorArrayWriteV3", made, 0, ONE, once, bad=True)
    yield case("TensorArrayWriteV3", made, 1, ONE, once)
    yield case("TensorArrayWriteV3", made, 1, const([1, 2]), once, bad=True)
    yield case("TensorArrayScatterV3", made, [0, 1], X[:2], once, bad=True)
    yield case("TensorArrayScatterV3", made, [1, 1], X[:2], once, bad=True)
    yield case("TensorArrayScatterV3", made, [1], X[:2], made[1], bad=True)
    yield case(
        "TensorArrayScatterV3", made, unknown(np.array([1], np.int32)), unknown(X[:2]), made[1], bad=True
    )
    yield case("TensorArrayScatterV3", made, [[1, 2]], X[:2], made[1], bad=True)
    yield case("TensorArrayScatterV3", made, [1], const([[1, 2]]), made[1], bad=True)
    yield case("TensorArrayReadV3", made, 1, once, attrs=of, bad=True)
    yield case("TensorArrayReadV3", made, 0, once, attrs={"dtype": "int32"}, bad=True)
    yield case("TensorArrayReadV3", made, [0], once, attrs=of, bad=True)
    twice = read(made, 0, once)
    yield case("TensorArrayReadV3", made, 0, once, attrs=of, after=(twice,), bad=True)
    yield case("TensorArrayWriteV3", made, 0, ONE, once, after=(twice,), bad=True)
    keeps = array(clear_after_read=False)
    once = written(keeps, 0, ONE)
    yield case("TensorArrayReadV3", keeps, 0, once, attrs=of, after=(read(keeps, 0, once),), grad=False)
    yield case("TensorArrayWriteV3", keeps, 0, ONE, once, after=(read(keeps, 0, once),), bad=True)
    for attrs, value in (
        ({"element_shape": (2,)}, 1.0),
        ({"element_shape": (3,)}, ONE),
        ({"element_shape": (2, None)}, ONE),
    ):
        shaped = array(**attrs)
        yield case("TensorArrayWriteV3", shaped, 0, value, shaped[1], bad=True)
        yield case("TensorArrayWriteV3", shaped, 0, unknown(value), shaped[1], bad=True)
    alike = array(identical_element_shapes=True)
    yield case("TensorArrayWriteV3", alike, 1, [1.0], written(alike, 0, ONE), bad=True)
    yield case(
        "TensorArrayReadV3",
        alike,
        1,
        written(alike, 0, ONE),
        attrs=of,
        grad=False,
        note="zeros like the first",
    )
    yield case("TensorArrayGatherV3", alike, [0, 1], written(alike, 0, ONE), attrs=of)
    for size, bad in ((-1, True), (0, False), ([1], True), (unknown(np.array([1], np.int32)), True)):
        yield case("TensorArrayV3", size, attrs=of, bad=bad, steps=lambda made: [[size_of(made, made[1])]])


def gather_and_concat() -> Iterator[Case]:
    attrs: dict[str, Any]
    of = {"dtype": "float32"}
    made = array()
    some = written(made, 0, ONE, written(made, 3, [1.0]))
    full = scattered(made, X)
    for attrs, indices, flow, bad in (
        ({}, [0, 3], some, True),
        ({}, [0, 1], some, True),
        ({}, [0, 0], full, True),
        ({}, [], full, True),
        ({"element_shape": (2,)}, [], full, False),
        ({"element_shape": (None,)}, [], full, True),
        ({"element_shape": (3,)}, [1, 2], full, True),
        ({"element_shape": (None,)}, [1, 2], full, False),
    ):
        yield case("TensorArrayGatherV3", made, np.array(indices, np.int32), flow, attrs=of | attrs, bad=bad)
    yield case("TensorArrayGatherV3", made, [[1]], full, attrs=of, bad=True)
    yield case("TensorArrayGatherV3", made, [1], full, attrs={"dtype": "int32"}, bad=True)
    two, none = array(2), array(0)
    for elements, attrs, bad in (
        (([1.0], [2.0, 3.0]), {}, False),
        (([1.0], [2.0, 3.0]), {"element_shape_except0": ()}, False),
        ((X, X[:1]), {"element_shape_except0": (2,)}, False),
        ((X, X[:0]), {}, False),
        ((X, X[:1]), {"element_shape_except0": (3,)}, True),
        (([1.0], [[2.0, 3.0]]), {}, True),
        ((1.0, 2.0), {}, True),
    ):
        flow = written(two, 1, elements[1], written(two, 0, elements[0]))
        yield case("TensorArrayConcatV3", two, flow, attrs=of | attrs, bad=bad)
    yield case("TensorArrayConcatV3", two, written(two, 0, ONE), attrs=of, bad=True)
    yield case("TensorArrayConcatV3", none, none[1], attrs=of, bad=True)
    yield case("TensorArrayConcatV3", none, none[1], attrs=of | {"element_shape_except0": (2,)})
    yield case("TensorArrayConcatV3", two, scattered(two, X[:2], [0, 1]), attrs={"dtype": "int32"}, bad=True)


def scatter_and_split() -> Iterator[Case]:
    grows = array(0, dynamic_size=True)
    for rows, indices in ((X, [3, 0, 1, 2]), (EMPTY_ROWS, []), (X[:2], [5, 1])):
        yield case(
            "TensorArrayScatterV3",
            grows,
            np.array(indices, np.int32),
            rows,
            grows[1],
            steps=lambda flow: [[size_of(grows, flow)]],
        )
    yield case("TensorArrayWriteV3", grows, 6, ONE, grows[1], steps=lambda flow: [[size_of(grows, flow)]])
    yield case("TensorArrayScatterV3", grows, [0], 1.0, grows[1], bad=True)
    yield case("TensorArrayScatterV3", grows, [0], unknown(1.0), grows[1], bad=True)
    for size, dynamic, rows, lengths, bad in (
        (2, False, X, [1, 3], False),
        (2, False, X, [0, 4], False),
        (0, True, X, [1, 3], False),
        (1, True, X, [1, 1, 2], False),
        (0, False, EMPTY_ROWS, [], False),
        (2, False, X, [1, 2], True),
        (2, False, X, [1, 4], True),
        (3, False, X, [1, 3], True),
        (5, True, X, [1, 3], True),
        (1, False, 1.0, [1], True),
        (1, False, X, 4, True),
        (2, False, np.ones((4, 2), np.int32), [1, 3], True),
    ):
        made = array(size, dynamic_size=dynamic)
        yield case(
            "TensorArraySplitV3",
            made,
            rows,
            np.array(lengths, np.int64),
            made[1],
            bad=bad,
            steps=given(lambda flow, made: [[size_of(made, flow), flow]], made),
        )


def arrays_of_gradients() -> Iterator[Case]:
    of = {"source": "gradients"}
    made = array()
    some = written(made, 0, ONE)
    for name, more in (("TensorArrayGradV3", ()), ("TensorArrayGradWithShape", (const([3]),))):
        value = np.ones((3, 2), np.float32) if more else np.ones(2, np.float32)

        def found(flow: Flow, name: str = name, more: Any = more) -> Node:
            return node(name, made, flow, *more, attrs=of)

        yield case(name, made, some, *more, attrs=of, steps=lambda g: [[read(g, 0, g[1])]])
        yield case(name, made, some, *more, attrs=of, bad=True, steps=lambda g: [[read(g, 1, g[1])]])
        yield case(name, made, some, *more, attrs=of, steps=lambda g: [[size_of(g, g[1])]])
        yield case(name, made, some, *more, attrs=of, steps=lambda g: [[gathered(g, g[1], [0])]])
        yield case(
            name,
            made,
            some,
            *more,
            attrs=of,
            steps=given(
                lambda g, value: [[read(g, 0, written(g, 0, value, written(g, 0, value * 2)))]], value
            ),
            note="writes add up",
        )
        yield case(
            name,
            made,
            some,
            *more,
            attrs=of,
            steps=given(lambda g, value: [[read(g, 2, written(g, 2, value))]], value),
            note="of what was not written",
        )
        yield case(name, made, some, *more, attrs=of, bad=True, steps=lambda g: [[written(g, 0, 1.0)]])
        yield case(name, made, some, *more, attrs=of, bad=True, steps=lambda g: [[written(g, 4, 1.0)]])
        yield case(
            name,
            made,
            some,
            *more,
            attrs=of,
            bad=True,
            steps=given(
                lambda g, value: [[node("TensorArrayWriteV3", g, 0, value, g[1], after=(read(g, 0, g[1]),))]],
                value,
            ),
            note="read before it is written",
        )
        yield case(
            name,
            made,
            some,
            *more,
            attrs=of,
            steps=given(
                lambda g, value, found: [[read(g, 0, written(g, 0, value, written(found(g[1]), 0, value)))]],
                value,
                found,
            ),
            note="the same source, the same array",
        )
        shaped = array(element_shape=(2,))
        yield case(name, shaped, shaped[1], *more, attrs=of, steps=lambda g: [[read(g, 3, g[1])]])
        grows = array(1, dynamic_size=True)
        yield case(
            name,
            grows,
            written(grows, 0, ONE),
            *more,
            attrs=of,
            bad=True,
            steps=given(lambda g, grows: [[written(grows, 1, ONE, g[1])]], grows),
            note="an array with gradients grows no more",
        )


def closing() -> Iterator[Case]:
    made = array()
    of = {"dtype": "float32"}
    for after, bad in (
        (lambda closed: read(made, 0, written(made, 0, ONE), after=(closed,)), True),
        (lambda closed: node("TensorArrayWriteV3", made, 0, ONE, made[1], after=(closed,)), True),
        (lambda closed: node("TensorArraySizeV3", made, made[1], after=(closed,)), True),
        (lambda closed: node("TensorArrayScatterV3", made, [0], [ONE], made[1], after=(closed,)), True),
        (lambda closed: node("TensorArrayGatherV3", made, [0], made[1], attrs=of, after=(closed,)), True),
        (lambda closed: node("TensorArrayConcatV3", made, made[1], attrs=of, after=(closed,)), True),
        (
            lambda closed: node("TensorArrayGradV3", made, made[1], attrs={"source": "g"}, after=(closed,))[
                1
            ],
            True,
        ),
        (lambda closed: node("NoOp", after=(closed,)), False),
        (lambda closed: node("NoOp", after=(node("TensorArrayCloseV3", made, after=(closed,)),)), False),
    ):
        yield case(
            "TensorArrayCloseV3", made, bad=bad, steps=given(lambda closed, after: [[after(closed)]], after)
        )
    for dtype in ("int32", "string", "bool", "float64"):
        other = array(dtype=dtype)
        yield case(
            "TensorArrayCloseV3",
            other,
            steps=given(
                lambda closed, other: [[node("NoOp", after=(closed,))], [size_of(other, other[1])]], other
            ),
        )
    yield case("TensorArrayCloseV3", 1.0, bad=True)
    yield case("TensorArraySizeV3", 1.0, 0.0, bad=True)
    yield case(
        "TensorArrayV3",
        2,
        attrs=of | {"tensor_array_name": "named"},
        steps=lambda made: [[read(made, 7, made[1])]],
        bad=True,
    )


def stacks(version: str, *size: Any) -> Iterator[Case]:
    make, push, pop, close = (f"{name}{version}" for name in ("Stack", "StackPush", "StackPop", "StackClose"))
    for dtype in DTYPES:
        value = sample(dtype, (2,), 4)
        of = {"elem_type": dtype}
        stack = node(make, *size, attrs=of)

        def popped(after: Node, of: Any = of, stack: Node = stack) -> Node:
            return node(pop, stack, attrs=of, after=(after,))

        yield case(
            make,
            *size,
            attrs=of,
            steps=given(
                lambda made, value, of: [[node(pop, made, attrs=of, after=(node(push, made, value),))]],
                value,
                of,
            ),
        )
        yield case(pop, stack, attrs=of, after=(node(push, stack, value),), grad=False)
        yield case(
            push, stack, value, grad=False, steps=given(lambda top, popped: [[top, popped(top)]], popped)
        )
        yield case(close, stack, bad=True, steps=given(lambda closed, popped: [[popped(closed)]], popped))
    of = {"elem_type": "float32"}
    stack = node(make, *size, attrs=of)
    yield case(pop, stack, attrs=of, bad=True)
    yield case(pop, stack, attrs={"elem_type": "int32"}, after=(node(push, stack, ONE),), bad=True)
    both = node(push, stack, TWO, after=(node(push, stack, ONE),))
    yield case(pop, stack, attrs=of, after=(node(pop, stack, attrs=of, after=(both,)),), grad=False)
    yield case(push, stack, EMPTY_ROWS, steps=lambda top: [[node(pop, stack, attrs=of, after=(top,))]])
    yield case(close, stack, steps=lambda closed: [[node("NoOp", after=(closed,))]])
    if size:
        yield case(make, [1, 2], attrs=of, bad=True, steps=lambda made: [[node(pop, made, attrs=of)]])
        one = node(make, const(1), attrs=of)
        yield case(push, one, ONE, after=(node(push, one, ONE),), bad=True)


CASES: list[Case] = [
    *dtypes(),
    *shapes(),
    *with_gradients(),
    *refused(),
    *gather_and_concat(),
    *scatter_and_split(),
    *arrays_of_gradients(),
    *closing(),
    *stacks(""),
    *stacks("V2", const(-1)),
]
