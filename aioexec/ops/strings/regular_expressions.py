"""Regular expressions by RE2, whose time is linear in the text for every pattern; Python's `re` could block the event loop.

Text is bytes, interpreted as UTF-8 if valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, same_shape
from aioexec.ops.strings.elements import bytes_of, each, scalar_bytes
from aioexec.shapes import Dims
from aioexec.text_cache import cached_by_text

Pattern = Any  # re2 has no types
Match = Any
_MOST_PATTERNS = 16


@cached_by_text(_MOST_PATTERNS)
def compiled(pattern: bytes) -> Pattern:
    """Compile a pattern; recent ones are cached, each of which takes RE2 up to 8 MiB.

    Raises:
        InvalidArgumentError: the pattern is invalid.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        made = re2.compile(pattern, options)
    except re2.error as error:
        shown, why = (each.decode(errors="replace") for each in (pattern, _why(error)))
        raise InvalidArgumentError(f"Invalid pattern: {shown}, error: {why}") from error
    re2.purge()  # re2 caches patterns of any length
    return made


def _why(error: Exception) -> bytes:
    reason = error.args[0] if error.args else b""
    return reason if isinstance(reason, bytes) else str(reason).encode()


# Replacing

_REWRITE_TOKEN: Final = re.compile(rb"\\.?|[^\\]+", re.DOTALL)
_CHARACTER: Final = re.compile(
    rb"[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]|[\xE1-\xEF][\x80-\xBF]{2}|"
    rb"\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2}|.",
    re.DOTALL,
)


class _Rewrite(NamedTuple):
    """A parsed rewrite: literal text and group numbers, up to the first error, if any."""

    parts: tuple[bytes | int, ...]
    is_whole: bool
    last_group: int

    @classmethod
    def parse(cls, text: bytes) -> _Rewrite:
        parts: list[bytes | int] = []
        tokens = _REWRITE_TOKEN.findall(text)
        last_group = max(
            (int(token[1:]) for token in tokens if token[:1] == b"\\" and token[1:].isdigit()), default=0
        )
        for token in tokens:
            if token[:1] != b"\\":
                parts.append(token)
            elif token[1:].isdigit():
                parts.append(int(token[1:]))
            elif token == b"\\\\":
                parts.append(b"\\")
            else:
                return cls(tuple(parts), False, last_group)
        return cls(tuple(parts), True, last_group)

    def of(self, match: Match) -> bytes:
        return b"".join(part if isinstance(part, bytes) else match[part] or b"" for part in self.parts)


def _matches(pattern: Pattern, text: bytes) -> Iterator[Match]:
    """Yield matches from left to right; skips empty ones directly after another, and those that begin within a character."""
    at, end = 0, -1
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            return
        if match.end() == match.start() == end:
            character = _CHARACTER.match(text, at)
            at = character.end() if character else at + 1
            continue
        yield match
        at = end = match.end()


def _replaced(pattern: Pattern, rewrite: _Rewrite, everywhere: bool, text: bytes) -> bytes:
    parts, end = [], 0
    for match in _matches(pattern, text):
        parts += [text[end : match.start()], rewrite.of(match)]
        end = match.end()
        if not everywhere:
            break
    return b"".join(parts) + text[end:]


def _replace(value: Array, pattern: bytes, rewrite: bytes, everywhere: bool) -> Array:
    """Replace matches; a rewrite with invalid groups replaces nothing, nor does a malformed one if not global."""
    matcher, made = compiled(pattern), _Rewrite.parse(rewrite)
    if made.last_group > matcher.groups or not (made.is_whole or everywhere):
        return value.copy()
    return each(lambda text: _replaced(matcher, made, everywhere, text), value)


def _replace_kernel(context: KernelContext) -> Compute:
    everywhere: bool = context.attrs["replace_global"]

    def compute(value: Array, pattern: Array, rewrite: Array) -> Array:
        given = scalar_bytes(pattern, "Pattern"), scalar_bytes(rewrite, "Rewrite")
        return _replace(value, *given, everywhere)

    return compute


def _static_replace_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    pattern, rewrite = bytes_of(attrs["pattern"]), bytes_of(attrs["rewrite"])
    compiled(pattern)
    return lambda value: _replace(value, pattern, rewrite, attrs["replace_global"])


# Matching


def _matched(value: Array, pattern: bytes) -> Array:
    matcher = compiled(pattern)
    return each(lambda text: matcher.fullmatch(text) is not None, value, np.bool_)


def _match_kernel(context: KernelContext) -> Compute:
    return lambda value, pattern: _matched(value, scalar_bytes(pattern, "Pattern"))


def _static_match_kernel(context: KernelContext) -> Compute:
    pattern = bytes_of(context.attrs["pattern"])
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
    """Replace matches of an RE2 pattern; `\\1` in `rewrite` is the first group, `\\0` the match."""
    if isinstance(pattern, str | bytes) and isinstance(rewrite, str | bytes):
        return apply_op(
            "StaticRegexReplace",
            input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
            name=name,
        )
    return apply_op("RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input: object, pattern: object, name: str | None = None) -> Tensor:
    """Return whether an RE2 pattern matches the whole string."""
    if isinstance(pattern, str | bytes):
        return apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name)
    return apply_op("RegexFullMatch", input, pattern, name=name)
