"""Caches for functions of strings from programs, files and peers, bounded in entries and in bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

LONGEST_TEXT = 1024
"""The most characters, or bytes, of a cached string; longer ones are rare and computed each time."""

Function = TypeVar("Function", bound=Callable[..., Any])


def cached_by_text(maxsize: int) -> Callable[[Function], Function]:
    """`functools.lru_cache`, with `cache_info` and `cache_clear`, which does not cache calls with long strings."""

    def decorate(function: Function) -> Function:
        kept = lru_cache(maxsize)(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            for each in arguments:
                if isinstance(each, str | bytes) and len(each) > LONGEST_TEXT:
                    return function(*arguments)
            return kept(*arguments)

        cached: Any = call
        cached.cache_info, cached.cache_clear = kept.cache_info, kept.cache_clear
        result: Function = cached
        return result

    return decorate
