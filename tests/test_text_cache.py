"""Caches by strings: which results are cached."""

from __future__ import annotations

from aioexec.ops.strings.regular_expressions import compiled
from aioexec.text_cache import LONGEST_TEXT, cached_by_text


def test_results_of_short_texts_are_kept_up_to_a_number():
    asked: list[str] = []

    @cached_by_text(2)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text) for text in ("a", "a", "bb", "ccc", "a")] == [1, 1, 2, 3, 1]
    assert asked == ["a", "bb", "ccc", "a"]


def test_results_of_long_texts_are_not_kept():
    asked: list[bytes | str] = []

    @cached_by_text(100)
    def length(first: str, second: bytes) -> int:
        asked.append(first)
        return len(first) + len(second)

    longest, longer = LONGEST_TEXT, LONGEST_TEXT + 1
    assert [length("a" * longest, b"b" * longest) for _ in range(2)] == [2 * longest] * 2
    assert [length("a", b"b" * longer) for _ in range(2)] == [longer + 1] * 2
    assert [length("a" * longer, b"b") for _ in range(2)] == [longer + 1] * 2
    assert len(asked) == 5


def test_a_regular_expression_is_compiled_once_unless_it_is_long():
    short, long = b"a+b", b"a" * (LONGEST_TEXT + 1)

    assert compiled(short) is compiled(short)
    assert compiled(long) is not compiled(long)
