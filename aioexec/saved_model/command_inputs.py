"""The inputs of `aioexec saved-model run`: arrays in files, and expressions, which are parsed, never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from aioexec.errors import InvalidArgumentError, NotFoundError

_FUNCTIONS: Final = {
    name: getattr(np, name) for name in ("arange", "array", "eye", "full", "linspace", "ones", "zeros")
}
"""The functions of NumPy that an expression may call."""

_IN_ARCHIVE: Final = re.compile(r"(?P<path>.+)\[(?P<key>[^\]]+)\]")


def file_inputs(text: str) -> dict[str, Any]:
    """The arrays of "NAME=FILE;NAME=FILE[KEY]": .npy files, or entries of .npz files.

    Raises:
        InvalidArgumentError: another form, or a file with Python objects.
        NotFoundError: no such file or entry.
    """
    return {name: _read(value) for name, value in _pairs(text, "NAME=FILE")}


def expression_inputs(text: str) -> dict[str, Any]:
    """The values of "NAME=VALUE;NAME=VALUE": literals, and calls of a few functions of NumPy with literals.

    Raises:
        InvalidArgumentError: another expression.
    """
    return {name: _value_of(value) for name, value in _pairs(text, "NAME=VALUE")}


def _pairs(text: str, form: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, sign, value = part.partition("=")
        if not (name and sign and value):
            raise InvalidArgumentError(f"expected {form} for an input, got {part!r}")
        yield name.strip(), value.strip()


def _read(text: str) -> Any:
    found = _IN_ARCHIVE.fullmatch(text)
    path, key = (found["path"], found["key"]) if found else (text, None)
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"{path}: expected a .npy or .npz file without Python objects: {error}"
        ) from error
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        names = list(loaded)
        chosen = names[0] if key is None and len(names) == 1 else key
        if chosen not in names:
            raise NotFoundError(f"{path}: no entry {chosen!r}, only {names}; FILE[KEY] chooses one")
        return loaded[chosen]


def _value_of(text: str) -> Any:
    try:
        return _evaluated(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidArgumentError(
            f"expected a literal, or a call of np.{', np.'.join(_FUNCTIONS)} with literals, got {text!r}: {error}"
        ) from error


def _evaluated(node: ast.expr) -> Any:
    """The value of a literal, of `np.DTYPE`, or of a call of an allowed function.

    Raises:
        ValueError: another expression.
    """
    if isinstance(node, ast.Call) and _numpy_name(node.func) in _FUNCTIONS:
        named = {str(each.arg): _evaluated(each.value) for each in node.keywords}
        return _FUNCTIONS[_numpy_name(node.func)](*map(_evaluated, node.args), **named)
    if isinstance(node, ast.Attribute) and _numpy_name(node):
        return np.dtype(_numpy_name(node))
    return ast.literal_eval(node)


def _numpy_name(node: ast.expr) -> str:
    """NAME of `np.NAME`; else ""."""
    is_numpy = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    return node.attr if is_numpy and isinstance(node, ast.Attribute) else ""
