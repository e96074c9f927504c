"""Python text is parsed in one thread at a time."""

from __future__ import annotations

import ast
import threading

import pytest

from aioexec.devices.jit import syntax


def test_no_two_threads_parse_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    inside, release, order = threading.Event(), threading.Event(), list[str]()

    def slow_parse(text: str) -> ast.Module:
        order.append(f"begin {text}")
        if text == "first":
            inside.set()
            release.wait(10)
        order.append(f"end {text}")
        return ast.Module([], [])

    monkeypatch.setattr(ast, "parse", slow_parse)
    first = threading.Thread(target=syntax.parse, args=("first",))
    second = threading.Thread(target=syntax.parse, args=("second",))

    first.start()
    inside.wait(10)
    second.start()
    release.set()
    first.join()
    second.join()

    assert order == ["begin first", "end first", "begin second", "end second"]
