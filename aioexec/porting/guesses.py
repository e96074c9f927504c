"""What a call is taken for if nothing is known about its object: by the names that programs of TensorFlow use."""

from __future__ import annotations

import ast
import io
import re

from aioexec.porting.api import Use

_SESSION = re.compile(r"sess", re.IGNORECASE)
_SAVER = re.compile(r"saver", re.IGNORECASE)
_WRITER = re.compile(r"writer", re.IGNORECASE)
_COORDINATOR = re.compile(r"coord", re.IGNORECASE)
_ESTIMATOR = re.compile(r"estimator", re.IGNORECASE)
_SUPERVISOR = re.compile(r"^sv$|supervisor", re.IGNORECASE)

_BY_METHOD = {
    "run_with_hooks": Use.AWAIT,
    "run_step_fn": Use.AWAIT,
    "partial_run": Use.AWAIT,
    "partial_run_setup": Use.AWAIT,
    "prepare_or_wait_for_session": Use.AWAIT,
    "managed_session": Use.ENTER,
}
"""Methods that only objects of TensorFlow have."""

_BY_OBJECT = [
    (_SESSION, "run close", Use.AWAIT),
    (_SAVER, "save restore", Use.AWAIT),
    (_WRITER, "close flush", Use.AWAIT),
    (_COORDINATOR, "join wait_for_stop", Use.AWAIT),
    (_ESTIMATOR, "train evaluate export_savedmodel export_saved_model", Use.AWAIT),
    (_ESTIMATOR, "predict", Use.ITERATE),
    (_SUPERVISOR, "stop summary_computed start_standard_services", Use.AWAIT),
]


def last_name(node: ast.expr) -> str:
    """The last name of an object: `sess` of `self.model.sess`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def is_session_like(node: ast.expr) -> bool:
    """Whether an object is named as sessions are."""
    return bool(_SESSION.search(last_name(node)))


_BUILTIN = {name for kind in (str, bytes, list, dict, set, float, io.TextIOBase) for name in dir(kind)}


def may_be_own(function: ast.Attribute, owner: str) -> bool:
    """Whether a method of an object may be that of a class of the program; `owner` is the name of the class.

    Objects of Python have methods like `update` and `decode` too: then the names of object and class must resemble each other.
    """
    if function.attr.startswith("__"):
        return False
    name, owner = last_name(function.value).strip("_0123456789").lower(), owner.lower()
    is_alike = len(name) > 2 and (name in owner or owner in name)
    return is_alike or function.attr not in _BUILTIN


def guess_use(function: ast.Attribute, *, has_own: bool, takes_session: bool) -> Use:
    """What a call of a method needs.

    Args:
        has_own: a class of the program has a method of that name.
        takes_session: the first argument is a session.
    """
    name, method = last_name(function.value), function.attr
    for pattern, methods, use in _BY_OBJECT:
        if method in methods.split() and pattern.search(name):
            return use
    if has_own:
        return Use.PLAIN
    if method in _BY_METHOD:
        return _BY_METHOD[method]
    if method in ("save", "restore") and takes_session:
        return Use.AWAIT
    return Use.AWAIT if method in ("eval", "run") else Use.PLAIN
