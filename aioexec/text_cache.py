"""Results of functions of texts that come from programs, files and peers, kept within bounds of number and of bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

LONGEST_TEXT = 1024
"""Characters, or bytes, of a text that is kept; longer ones are rare, and their results computed each time."""

Function = TypeVar("Function", bound=Callable[..., Any])


def cached_by_text(maxsize: int) -> Callable[[Function], Function]:
    """As `functools.lru_cache`, with `cache_info` and `cache_clear`, but nothing is kept where an argument is a long text."""

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
