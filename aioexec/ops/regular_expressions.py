"""Regular expressions in RE2's syntax, matched by Python's `re`.

A pattern is translated, and refused where RE2 refuses it: no backreferences, no looking around, no atomic groups. What differs:
`re` tries alternatives one after another, so that a pattern with nested repetitions may take exponential time where RE2 never
does; classes of Unicode (`\\pL`) are refused; bytes that are no UTF-8 are matched by `.`, one each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.elementwise import Array, same_shape
from aioexec.ops.string_elements import each, scalar_bytes
from aioexec.shapes import Dims

Pattern = re.Pattern[str]

# RE2's syntax in Python's

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NEGATED: Final = {"alpha": r"\x00-@\[-`{-\U0010FFFF", "digit": r"\D", "word": r"\W", "space": r"\S"}
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z) | \\x\{[0-9A-Fa-f]{1,6}\} | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] | \(\?P?<\w+> | "
    r"\(\?[a-zA-Z-]*[:)] | \(\? | [()] | \{\d+(?:,\d*)?\} | [*+?] | [$] | .",
    re.DOTALL | re.VERBOSE,
)
_IN_CLASS: Final = re.compile(r"\[:\^?\w+:\]|\\x\{[0-9A-Fa-f]{1,6}\}|\\.|.", re.DOTALL)
_MOST_REPEATS: Final = 1000


def _invalid(pattern: str, why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"Invalid pattern: {pattern}, error: {why}")


class _Translation:
    """One pass over a pattern. `_open` has, for each group that is open, how many scopes of flags end with it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._open = [0]
        self._is_multiline = False
        self._repeats = ""

    def __call__(self) -> str:
        text = "".join(map(self._token, _TOKEN.findall(self._pattern)))
        return text + ")" * self._open[0]

    def _token(self, token: str) -> str:
        before, self._repeats = self._repeats, ""
        if token in "*+?" or re.fullmatch(r"\{\d+(,\d*)?\}", token):
            return self._repeat(token, before)
        if token.startswith("\\"):
            return self._escape(token)
        if token.startswith("(?"):
            return self._group(token)
        if token == "(":
            self._open.append(0)
        elif token == ")" and len(self._open) > 1:
            return ")" * (1 + self._open.pop())
        elif token == "$" and not self._is_multiline:
            return r"\Z"
        elif token.startswith("[") and len(token) > 1:
            return self._class(token)
        return token

    def _repeat(self, token: str, before: str) -> str:
        """`before`: "" behind what may be repeated, "greedy" behind a repetition, "lazy" behind one with a question mark."""
        if before == "lazy" or (before == "greedy" and token != "?"):
            raise _invalid(self._pattern, f"bad repetition operator: {token}")
        if any(int(number) > _MOST_REPEATS for number in re.findall(r"\d+", token)):
            raise _invalid(self._pattern, f"invalid repetition size: {token}")
        self._repeats = "lazy" if before else "greedy"
        return token

    def _escape(self, token: str) -> str:
        if token.startswith(r"\Q"):
            return re.escape(token[2:].removesuffix(r"\E"))
        if token.startswith(r"\x{"):
            return self._character(token)
        if token[1:] in "pPCXuUNRk" or token[1:] in "123456789" or token == "\\":
            raise _invalid(self._pattern, f"invalid escape sequence: {token}")
        return r"\Z" if token == r"\z" else token

    def _character(self, token: str) -> str:
        number = int(token[3:-1], 16)
        if number > 0x10FFFF:
            raise _invalid(self._pattern, f"invalid escape sequence: {token}")
        return re.escape(chr(number))

    def _group(self, token: str) -> str:
        if re.fullmatch(r"\(\?P?<\w+>", token):
            self._open.append(0)
            return "(?P" + token[token.index("<") :]
        flags = token[2:-1]
        if not re.fullmatch(r"[ims]*(-[ims]+)?", flags) or token == "(?":
            raise _invalid(self._pattern, f"invalid perl operator: {token}")
        self._is_multiline = "m" in flags.partition("-")[0]
        if token.endswith(":"):
            self._open.append(0)
            return token
        self._open[-1] += 1
        return f"(?{flags}:"

    def _class(self, token: str) -> str:
        start = 2 if token.startswith("[^") else 1
        return token[:start] + "".join(map(self._member, _IN_CLASS.findall(token[start:-1]))) + "]"

    def _member(self, member: str) -> str:
        if not member.startswith("[:"):
            if member.startswith("\\"):
                return self._escape(member)
            return "\\" + member if member in "[]&|~" else member
        name = member[2:-2]
        found = _NEGATED.get(name[1:]) if name.startswith("^") else _POSIX.get(name)
        if found is None:
            raise _invalid(self._pattern, f"invalid character class range: {member}")
        return found


@lru_cache(256)
def compiled(pattern: bytes) -> Pattern:
    """A pattern of RE2's.

    Raises:
        InvalidArgumentError: RE2 would refuse it, or it has no counterpart.
    """
    text = _decoded(pattern)
    try:
        return re.compile(_Translation(text)(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise _invalid(text, str(error)) from error


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


# Replacing


def _rewriter(pattern: Pattern, rewrite: str) -> Callable[[re.Match[str]], str] | None:
    """What becomes of a match; None where the rewrite names groups that there are not: then nothing is replaced."""
    parts: list[str | int] = []
    for token in re.findall(r"\\.?|[^\\]+", rewrite, re.DOTALL):
        if token[:1] != "\\":
            parts.append(token)
        elif token[1:].isdecimal() and token.isascii():
            parts.append(int(token[1:]))
        elif token == "\\\\":
            parts.append("\\")
        else:
            return lambda match: ""
    if any(isinstance(part, int) and part > pattern.groups for part in parts):
        return None
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _replaced(pattern: Pattern, rewrite: Callable[[re.Match[str]], str], everywhere: bool, text: str) -> str:
    """An empty match right behind another one does not count."""
    parts, end, is_first = [], 0, True
    for match in pattern.finditer(text):
        if not match[0] and match.end() == end and not is_first:
            continue
        parts += [text[end : match.start()], rewrite(match)]
        end, is_first = match.end(), False
        if not everywhere:
            break
    return "".join(parts) + text[end:]


def _replace(value: Array, pattern: bytes, rewrite: bytes, everywhere: bool) -> Array:
    matcher = compiled(pattern)
    made = _rewriter(matcher, _decoded(rewrite))
    if made is None:
        return value.copy()

    def replaced(text: bytes) -> bytes:
        return _replaced(matcher, made, everywhere, _decoded(text)).encode("utf-8", "surrogateescape")

    return each(replaced, value)


def _replace_kernel(context: KernelContext) -> Compute:
    everywhere: bool = context.attrs["replace_global"]

    def compute(value: Array, pattern: Array, rewrite: Array) -> Array:
        given = scalar_bytes(pattern, "Pattern"), scalar_bytes(rewrite, "Rewrite")
        return _replace(value, *given, everywhere)

    return compute


def _static_replace_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    pattern, rewrite = attrs["pattern"].encode(), attrs["rewrite"].encode()
    compiled(pattern)
    return lambda value: _replace(value, pattern, rewrite, attrs["replace_global"])


# Matching


def _matched(value: Array, pattern: bytes) -> Array:
    matcher = compiled(pattern)
    return each(lambda text: matcher.fullmatch(_decoded(text)) is not None, value, np.bool_)


def _match_kernel(context: KernelContext) -> Compute:
    return lambda value, pattern: _matched(value, scalar_bytes(pattern, "Pattern"))


def _static_match_kernel(context: KernelContext) -> Compute:
    pattern = context.attrs["pattern"].encode()
    compiled(pattern)
    return lambda value: _matched(value, pattern)


# Rows


def _with_scalars(context: ShapeContext) -> Sequence[Dims]:
    for given in context.inputs[1:]:
        shapes.with_rank(given, 0)
    return [context.inputs[0]]


register(
    "RegexReplace(input:string, pattern:string, rewrite:string) -> (output:string) [replace_global:bool=true]",
    shape=_with_scalars,
    kernel=_replace_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "StaticRegexReplace(input:string) -> (output:string) [pattern:string; rewrite:string; replace_global:bool=true]",
    shape=same_shape,
    kernel=_static_replace_kernel,
    gradient=undefined_gradient,
)
register(
    "RegexFullMatch(input:string, pattern:string) -> (output:bool)",
    shape=_with_scalars,
    kernel=_match_kernel,
    gradient=undefined_gradient,
)
register(
    "StaticRegexFullMatch(input:string) -> (output:bool) [pattern:string]",
    shape=same_shape,
    kernel=_static_match_kernel,
    gradient=undefined_gradient,
)


def regex_replace(
    input: object, pattern: object, rewrite: object, replace_global: bool = True, name: str | None = None
) -> Tensor:
    """Strings with what matches an RE2 pattern replaced; `\\\\1` in `rewrite` is the first group, `\\\\0` the match."""
    if isinstance(pattern, str | bytes) and isinstance(rewrite, str | bytes):
        return apply_op(  # type: ignore[no-any-return]
            "StaticRegexReplace",
            input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
            name=name,
        )
    return apply_op("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)  # type: ignore[no-any-return]


def regex_full_match(input: object, pattern: object, name: str | None = None) -> Tensor:
    """Whether strings match an RE2 pattern from beginning to end."""
    if isinstance(pattern, str | bytes):
        return apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name)  # type: ignore[no-any-return]
    return apply_op("RegexFullMatch", input, pattern, name=name)  # type: ignore[no-any-return]
