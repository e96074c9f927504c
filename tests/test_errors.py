"""The error classes: TensorFlow's codes and constructors, builtin base classes, context, pickling."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from aioexec import errors

# google.rpc.Code, written out by hand
CODES = {
    "Cancelled": 1, "Unknown": 2, "InvalidArgument": 3, "DeadlineExceeded": 4, "NotFound": 5,
    "AlreadyExists": 6,
    "PermissionDenied": 7, "ResourceExhausted": 8, "FailedPrecondition": 9, "Aborted": 10, "OutOfRange": 11,
    "Unimplemented": 12, "Internal": 13, "Unavailable": 14, "DataLoss": 15, "Unauthenticated": 16,
}  # fmt: skip

CLASSES = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.OpError)
]


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_each_canonical_class_has_its_code_and_tensorflows_constructor(name, code):
    kind = getattr(errors, f"{name}Error")

    error = kind("node_def", "op", "went wrong")

    assert (error.node_def, error.op, error.message, error.error_code) == (
        "node_def",
        "op",
        "went wrong",
        code,
    )
    assert errors.exception_type_from_error_code(code) is kind
    assert errors.error_code_from_exception_type(kind) == code


def test_the_constants_number_the_codes():
    names = ["".join(f"_{c}" if c.isupper() else c for c in name).strip("_").upper() for name in CODES]

    assert [getattr(errors, name) for name in names] == list(CODES.values())
    assert errors.OK == 0


def test_op_error_takes_any_code():
    error = errors.OpError(None, None, "m", errors.ABORTED)

    assert (str(error), error.error_code) == ("m", 10)


def test_a_lone_string_is_the_message():
    error = errors.NotFoundError("no such file")

    assert (error.message, error.node_def, error.op) == ("no such file", None, None)
    assert errors.NotFoundError(message="by keyword").message == "by keyword"
    assert repr(error) == "NotFoundError('no such file')"


@pytest.mark.parametrize(
    ("kind", "canonical", "builtin"),
    [
        (errors.GraphValueError, errors.InvalidArgumentError, ValueError),
        (errors.GraphTypeError, errors.InvalidArgumentError, TypeError),
        (errors.UnknownNameError, errors.NotFoundError, KeyError),
        (errors.SessionClosedError, errors.CancelledError, RuntimeError),
    ],
)
def test_errors_of_the_python_layer_are_caught_under_both_names(kind, canonical, builtin):
    for caught in (canonical, builtin):
        with pytest.raises(caught, match=r"\Aplain words\Z") as info:
            raise kind("plain words")
        assert info.type is kind
    assert errors.error_code_from_exception_type(kind) == canonical.code


def test_a_closed_session_says_so_by_itself():
    assert str(errors.SessionClosedError()) == "Attempted to use a closed Session"


def test_codes_without_a_class_are_refused():
    for code in (errors.OK, 17, -1):
        with pytest.raises(errors.UnknownNameError, match=f"error code {code}"):
            errors.exception_type_from_error_code(code)
    assert errors.error_code_from_exception_type(ZeroDivisionError) == errors.UNKNOWN


def test_context_names_node_device_and_origin():
    plain = errors.GraphValueError(None, "op", "inner dimensions differ, (32, 10) x (12, 4)")

    error = errors.with_context(
        plain, node="layer1/matmul", op_type="MatMul", device="/device:CPU:0", created_at="model.py:41"
    )

    assert type(error) is errors.GraphValueError
    assert error.op == "op"
    assert str(error) == (
        "MatMul 'layer1/matmul' on /device:CPU:0: inner dimensions differ, (32, 10) x (12, 4); "
        "created at model.py:41"
    )
    assert (error.node, error.op_type, error.device) == ("layer1/matmul", "MatMul", "/device:CPU:0")
    assert plain.node is None


def test_the_operation_and_its_definition_are_told_unless_the_error_knows_another():
    class Operation:
        node_def = "of the operation"

    def located(node_def: object = None, op: object = None) -> errors.OpError:
        return errors.with_context(errors.InternalError(node_def, op, "m"), node="a", op=Operation)

    assert (located().op, located().node_def) == (Operation, "of the operation")
    assert (located(node_def="its own").node_def, located(op="its own").op) == ("its own", "its own")


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, "m"),
        ({"node": "a"}, "node 'a': m"),
        ({"op_type": "Add"}, "Add: m"),
        ({"device": "/device:CPU:0"}, "/device:CPU:0: m"),
        ({"node": "a", "created_at": "x.py:1"}, "node 'a': m; created at x.py:1"),
    ],
)
def test_context_leaves_out_what_is_not_known(context, expected):
    assert str(errors.with_context(errors.InternalError("m"), **context)) == expected


def test_the_innermost_context_stays_and_the_cause_is_carried():
    cause = ZeroDivisionError("by zero")
    try:
        raise errors.UnknownError("m") from cause
    except errors.UnknownError as raised:
        inner = errors.with_context(raised, node="inner")

    assert errors.with_context(inner, node="outer") is inner
    assert inner.__cause__ is cause
    assert inner.__traceback__ is not None


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("clone", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_survive_pickling_without_their_operation(kind, clone):
    original = errors.with_context(kind({"name": "a"}, lambda: "an operation", "m"), node="a", op_type="Add")

    again = clone(original)

    assert type(again) is kind
    assert (again.message, again.node, again.node_def) == ("Add 'a': m", "a", {"name": "a"})
    assert (again.error_code, again.op, again.args) == (kind.code, None, ("Add 'a': m",))


@pytest.mark.parametrize(
    ("foreign", "kind"),
    [
        (TypeError("t"), errors.InvalidArgumentError),
        (KeyError("k"), errors.UnknownError),
        (StopIteration(), errors.OutOfRangeError),
        (MemoryError("m"), errors.ResourceExhaustedError),
        (NotImplementedError("n"), errors.UnimplementedError),
        (TimeoutError("late"), errors.DeadlineExceededError),
        (FileNotFoundError("f"), errors.NotFoundError),
    ],
)
def test_foreign_exceptions_become_the_class_tensorflow_gives_them(foreign, kind):
    error = errors.from_exception(foreign)

    assert type(error) is kind
    assert error.__cause__ is foreign
    assert type(foreign).__name__ in error.message
    assert errors.from_exception(error) is error
