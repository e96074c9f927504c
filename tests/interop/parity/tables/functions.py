"""Calls of functions, and conditionals and loops whose bodies are functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, function, partly, resource, unknown

F = ("float32",)
X = sample("float32", (2, 3))


def call(op_type: str, name: str, dtypes: tuple[str, ...], body: Any, args: list[Any], **more: Any) -> Case:
    returns = more.pop("returns", ["float32"])
    return case(op_type, args, attrs={"f": function(name, dtypes, body), "Tout": returns}, **more)


def calls(op_type: str) -> list[Case]:
    return [
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [X]),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [3.0]),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [np.zeros((0, 3), np.float32)]),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [unknown(X)]),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [partly(X, (None, 3))]),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [const(X)]),
        call(
            op_type,
            "doubled_64",
            ("float64",),
            lambda tf, x: x * 2.0,
            [sample("float64", (4,))],
            returns=["float64"],
        ),
        call(op_type, "next", ("int64",), lambda tf, x: x + 1, [np.array([1, 2])], returns=["int64"]),
        call(op_type, "not", ("bool",), lambda tf, x: tf.logical_not(x), [[True, False]], returns=["bool"]),
        call(op_type, "joined", ("string",), lambda tf, x: tf.identity(x), [[b"a", b""]], returns=["string"]),
        call(op_type, "product", F * 2, lambda tf, x, y: tf.matmul(x, y, transpose_b=True), [X, X]),
        call(
            op_type,
            "several",
            F * 2,
            lambda tf, x, y: (x + y, tf.shape(x), x),
            [X, X],
            returns=["float32", "int32", "float32"],
        ),
        call(op_type, "swapped", F * 2, lambda tf, x, y: (y, x), [X, 1.0], returns=["float32"] * 2),
        call(op_type, "nothing_used", F, lambda tf, x: tf.constant([1.0, 2.0]), [X]),
        call(op_type, "static_shape", F, lambda tf, x: tf.reshape(x, [3, -1]), [X]),
        call(op_type, "checked", F, lambda tf, x: tf.reshape(x, [4]), [X], bad=True),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [X, X], bad=True, note="one input too many"),
        call(op_type, "doubled", F, lambda tf, x: x * 2.0, [[1, 2]], bad=True, note="of another type"),
    ]


def branches(op_type: str, condition: Any, then: Any, other: Any, args: list[Any], **more: Any) -> Case:
    dtypes = more.pop("dtypes", F * len(args))
    returns = more.pop("returns", ["float32"])
    shapes = more.pop("shapes", ())
    attrs = {
        "then_branch": function("then", dtypes, then),
        "else_branch": function("other", dtypes, other),
        "Tout": returns,
        "output_shapes": shapes,
    }
    return case(op_type, condition, args, attrs=attrs, **more)


def ifs(op_type: str) -> list[Case]:
    def twice(tf: Any, x: Any) -> Any:
        return x * 2.0

    def less(tf: Any, x: Any) -> Any:
        return x - 1.0

    conditions: list[Any] = [
        *(
            np.bool_(True),
            np.bool_(False),
            np.float32(0.0),
            np.float32(-0.5),
            np.int64(3),
            np.int32(0),
            np.uint8(1),
        ),
        *(
            np.array(b"", object),
            np.array(b"no", object),
            np.zeros((0,), np.float32),
            np.zeros((2,), np.float32),
        ),
    ]
    return [
        *(
            branches(
                op_type, condition, twice, less, [X], grad=condition.dtype == bool
            )  # as TensorFlow's wants it
            for condition in conditions
        ),
        branches(op_type, np.bool_(True), twice, less, [np.zeros((0, 3), np.float32)]),
        branches(op_type, np.bool_(True), twice, less, [X], shapes=[(2, 3)]),
        branches(op_type, np.bool_(False), twice, less, [X], shapes=[(None, 3)]),
        branches(op_type, np.bool_(True), twice, less, [unknown(X)]),
        branches(op_type, const(np.bool_(True)), twice, less, [X]),
        branches(
            op_type,
            np.bool_(False),
            lambda tf, x, y: (x, y),
            lambda tf, x, y: (y, tf.constant(3.0)),
            [X, 1.0],
            returns=["float32"] * 2,
        ),
        branches(
            op_type,
            np.bool_(True),
            lambda tf, x: tf.shape(x),
            lambda tf, x: tf.constant([7], tf.int32),
            [X],
            returns=["int32"],
        ),
        branches(op_type, np.bool_(True), twice, less, [X], shapes=[(2, 3), (2, 3)], bad=True),
        branches(op_type, np.bool_(True), lambda tf, x: tf.reshape(x, [4]), less, [unknown(X)], bad=True),
        branches(op_type, np.bool_(False), lambda tf, x: tf.reshape(x, [4]), less, [unknown(X)]),
    ]


def cases_of(op_type: str) -> list[Case]:
    def scaled(k: int) -> Any:
        return function(f"scaled_{k}", F, lambda tf, x: x * float(k))

    def chosen(index: Any, count: int, arg: Any = X, shapes: Any = (), bad: bool = False) -> Case:
        attrs = {"branches": [scaled(k) for k in range(count)], "Tout": ["float32"], "output_shapes": shapes}
        return case(op_type, index, [arg], attrs=attrs, bad=bad)

    return [
        *(chosen(index, 3) for index in (-1, 0, 1, 2, 3, 100)),
        *(chosen(index, 1) for index in (0, 5)),
        *(chosen(index, 6) for index in (0, 1, 2, 3, 4, 5)),
        chosen(1, 2, np.zeros((0,), np.float32)),
        chosen(const(1), 2),
        chosen(1, 2, unknown(X)),
        chosen(1, 2, X, [(2, 3)]),
        chosen(1, 2, X, [(2, 3), (1,)], bad=True),
    ]


def loop(
    op_type: str, condition: Any, body: Any, args: list[Any], dtypes: tuple[str, ...], **more: Any
) -> Case:
    attrs = {
        "cond": function("condition", dtypes, condition),
        "body": function("round", dtypes, body),
        "output_shapes": more.pop("shapes", ()),
        "parallel_iterations": more.pop("parallel_iterations", 10),
    }
    return case(
        op_type, args, attrs=attrs, grad=False, **more
    )  # it differentiates what its own builder makes only


def whiles(op_type: str) -> list[Case]:
    kinds = ("int32", "float32")

    def below(limit: int) -> Any:
        return lambda tf, i, *rest: i < limit

    def doubling(tf: Any, i: Any, x: Any) -> Any:
        return i + 1, x * 2.0

    return [
        *(loop(op_type, below(n), doubling, [0, X], kinds) for n in (0, 1, 5)),
        *(loop(op_type, below(5), doubling, [0, X], kinds, parallel_iterations=n) for n in (1, 2)),
        loop(op_type, below(3), doubling, [0, np.zeros((0, 2), np.float32)], kinds),
        loop(op_type, below(3), doubling, [0, 1.5], kinds),
        loop(op_type, below(3), doubling, [0, unknown(X)], kinds),
        loop(op_type, below(3), doubling, [const(0), const(X)], kinds),
        loop(op_type, below(3), doubling, [0, X], kinds, shapes=[(), (2, 3)]),
        loop(
            op_type,
            below(3),
            lambda tf, i, x: (i + 1, tf.concat([x, x], 0)),
            [0, X],
            kinds,
            shapes=[(), (None, 3)],
        ),
        loop(
            op_type,
            below(4),
            lambda tf, i, x, y: (i + 1, y, x),
            [0, X, 2.0],
            ("int32", *F, *F),
            shapes=[(), None, None],
        ),
        loop(op_type, below(4), lambda tf, i, x, k: (i + 1, x * k, k), [0, X, 0.5], ("int32", *F, *F)),
        loop(op_type, below(4), lambda tf, i, x, k: (i + 1, k, k), [0, X, X], ("int32", *F, *F)),
        loop(op_type, below(3), lambda tf, i: i + 1, [0], ("int32",)),
        loop(
            op_type,
            lambda tf, x: tf.reduce_sum(x),
            lambda tf, x: x - 1.0,
            [3.0],
            F,
            note="a condition that is no boolean",
        ),
        loop(op_type, lambda tf, x: x > 5.0, lambda tf, x: x - 1.0, [3.0], F, note="never"),
        loop(
            op_type, below(3), lambda tf, i, x: (i + 1, tf.reshape(x, [4])), [0, unknown(X)], kinds, bad=True
        ),
        loop(op_type, below(3), doubling, [0, X], kinds, shapes=[()], bad=True),
    ]


def gradient(
    name: str, dtypes: tuple[str, ...], body: Any, args: list[Any], returns: list[str], **more: Any
) -> Case:
    return case(
        "SymbolicGradient",
        args,
        attrs={"f": function(name, dtypes, body), "Tout": returns},
        grad=False,
        **more,
    )


GRADIENTS = [
    gradient("squared", F, lambda tf, x: x * x, [value, np.ones_like(value)], ["float32"])
    for value in (X, np.float32(2.0), np.zeros((0,), np.float32), np.ones((1, 2, 3), np.float32))
] + [
    gradient("exp", F, lambda tf, x: tf.exp(x), [X, X], ["float32"]),
    gradient("tanh", ("float64",), lambda tf, x: tf.tanh(x), [sample("float64", (3,))] * 2, ["float64"]),
    gradient(
        "product",
        F * 2,
        lambda tf, x, y: tf.matmul(x, y, transpose_b=True),
        [X, X, sample("float32", (2, 2))],
        ["float32"] * 2,
    ),
    gradient("scaled", F * 2, lambda tf, x, y: x * y, [X, np.float32(2.0), X], ["float32"] * 2),
    gradient("two", F, lambda tf, x: (x * 2.0, x * x), [X, X, X], ["float32"]),
    gradient("same", F, lambda tf, x: tf.identity(x), [X, X], ["float32"]),
    gradient("mean", F, lambda tf, x: tf.reduce_mean(x), [X, np.float32(1.0)], ["float32"]),
    gradient(
        "unknown",
        F,
        lambda tf, x: tf.reshape(x * 3.0, [-1]),
        [unknown(X), unknown(X.reshape(-1))],
        ["float32"],
    ),
]

BOOLEANS = [
    case("ToBool", value)
    for value in (
        *(
            np.float32(0),
            np.float32(0.5),
            np.float64(-1),
            np.int32(0),
            np.int64(2),
            np.uint8(0),
            np.bool_(True),
        ),
        *(
            np.array(b"", object),
            np.array(b"0", object),
            np.zeros((0,), np.float32),
            np.zeros((2, 2), np.float32),
        ),
        *(np.zeros((1,), np.int32), np.float32("nan"), unknown(np.float32(2))),
    )
] + [case("ToBool", np.complex64(0), bad=True)]

STATE = [
    case(
        "StatefulPartitionedCall",
        [resource([1.0, 2.0])],
        attrs={
            "f": function("add_one", ("resource",), lambda tf, v: added(tf, v)),
            "Tout": ["float32"],
        },
        grad=False,
    ),
    case(
        "While",
        [0, resource([1.0, 2.0])],
        attrs={
            "cond": function("thrice", ("int32", "resource"), lambda tf, i, v: i < 3),
            "body": function(
                "adding", ("int32", "resource"), lambda tf, i, v: after(tf, added(tf, v), i + 1, v)
            ),
        },
        steps=lambda loop: [[loop]],
        grad=False,
    ),
    case(
        "If",
        np.bool_(False),
        [resource([1.0, 2.0])],
        attrs={
            "then_branch": function("add_one", ("resource",), lambda tf, v: added(tf, v)),
            "else_branch": function(
                "read", ("resource",), lambda tf, v: tf.raw_ops.ReadVariableOp(resource=v, dtype=tf.float32)
            ),
            "Tout": ["float32"],
        },
        grad=False,
    ),
]


def added(tf: Any, handle: Any) -> Any:
    """Add one to a variable; what it is then."""
    change = tf.raw_ops.AssignAddVariableOp(resource=handle, value=[1.0, 1.0])
    with tf.control_dependencies([change]):
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


def after(tf: Any, value: Any, *results: Any) -> Any:
    with tf.control_dependencies([value]):
        return [tf.identity(result) for result in results]


CASES: list[Case] = [
    *calls("PartitionedCall"),
    *calls("StatefulPartitionedCall"),
    *ifs("If"),
    *ifs("StatelessIf"),
    *cases_of("Case"),
    *cases_of("StatelessCase"),
    *whiles("While"),
    *whiles("StatelessWhile"),
    *GRADIENTS,
    *BOOLEANS,
    *STATE,
]
