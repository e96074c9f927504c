"""A loop kernel as text: the request to the compiler child, which contains everything that determines the machine code.

The child never imports the module a body lives in. It gets the source of the body and of every function it
calls, and the value of every constant they read: the same things that make the cache key, so a changed
constant can never meet old code.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.jit.llvm import scalars
from aioexec.devices.jit.process import SourceError
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import LANGUAGE

SUPPLIED = frozenset({"math", "np", "numpy", *LANGUAGE})
"""Names that the compiler defines for every body, regardless of their meaning in the body's module."""

Constant = bool | int | float | str | None | list[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """One function as text, and the meaning of its free names.

    Attributes:
        name: its name in the text.
        text: its definition, dedented.
        constants: JSON of the globals it reads that are values.
        calls: (name it uses, index of the function meant) of the others.
        language: names of the language it uses.
    """

    name: str
    text: str
    constants: str
    calls: tuple[tuple[str, int], ...]
    language: frozenset[str]


def encode_constant(value: object) -> Constant:
    """A constant in a form that JSON supports; raises TypeError for values that the compiler does not treat as constants."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.generic) and not isinstance(value, float):
        if value.dtype.kind not in "iuf":
            raise TypeError
        return {"dtype": value.dtype.name, "value": value.item()}
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tuple):
        return [encode_constant(item) for item in value]
    raise TypeError


def global_names(code: types.CodeType) -> list[str]:
    """The global names that a function uses, in order of first use."""
    found = dict.fromkeys(
        str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"
    )
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(global_names(constant)))
    return list(found)


def definition(function: types.FunctionType) -> str:
    """The text of a function, dedented."""
    if function.__code__.co_freevars:
        names = ", ".join(function.__code__.co_freevars)
        raise SourceError(
            f"{function.__qualname__} must not use an enclosing function's variables, got {names}"
        )
    if not function.__name__.isidentifier():
        raise SourceError(f"{function.__qualname__} must be a named function")
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError) as error:
        raise SourceError(f"source of {function.__qualname__} is not available: {error}") from error


@functools.lru_cache(maxsize=4096)
def closure(body: Callable[..., int]) -> tuple[FunctionSource, ...]:
    """The body, first, and every function it calls, directly or not.

    Raises:
        SourceError: one of them cannot be sent to the child.
    """
    if not isinstance(body, types.FunctionType):
        raise SourceError(f"expected a plain function, got {body!r}")
    order: dict[types.FunctionType, int] = {body: 0}
    queue: list[types.FunctionType] = [body]
    sources: list[FunctionSource] = []
    for function in queue:
        constants: dict[str, Constant] = {}
        calls: list[tuple[str, int]] = []
        names = global_names(function.__code__)
        for name in names:
            if name in SUPPLIED or (name not in function.__globals__ and hasattr(builtins, name)):
                continue
            value = function.__globals__.get(name, NotImplemented)
            if isinstance(value, types.FunctionType):
                if value not in order:
                    order[value] = len(queue)
                    queue.append(value)
                calls.append((name, order[value]))
            else:
                constants[name] = constant_for(function, name, value)
        text = json.dumps(constants, sort_keys=True)
        used = SUPPLIED.intersection(names)
        sources.append(FunctionSource(function.__name__, definition(function), text, tuple(calls), used))
    return tuple(sources)


def constant_for(function: types.FunctionType, name: str, value: object) -> Constant:
    if value is NotImplemented:
        raise SourceError(f"{function.__qualname__} uses {name!r}, which is not defined")
    try:
        return encode_constant(value)
    except TypeError:
        raise SourceError(
            f"{function.__qualname__} reads the global {name!r}: expected a function, a number, a string "
            f"or a tuple, got {type(value).__name__}"
        ) from None


def request_for(kernel: LoopKernel) -> str:
    """Everything the child needs to compile this kernel, as JSON; equal texts give equal code.

    Raises:
        SourceError: the body cannot be sent to the child.
    """
    sources = closure(kernel.body)
    functions = [
        {"name": source.name, "text": source.text, "constants": source.constants, "calls": source.calls}
        for source in sources
    ]
    used = scalars.FUNCTIONS & {name for source in sources for name in source.language}
    return json.dumps(
        {
            "functions": functions,
            "elementary": {
                name: {dtype: scalars.scalar_module(name, dtype) for dtype in scalars.DTYPES} for name in used
            },
            "pointers": kernel.pointers,
            "ints": kernel.ints,
            "reals": kernel.reals,
        },
        sort_keys=True,
    )
