"""Starts processes that save and are killed, and returns what they had acknowledged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.train.kills.nursery import Life, as_line

REPOSITORY = Path(__file__).parents[3]


@dataclass
class Lived:
    """Results of an ended life: the last step it acknowledged, and its calls that touched the disk if it reported them."""

    acknowledged: int | None = None
    calls: int | None = None
    exit_code: int = 0


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def live(self, life: Life) -> Lived:
        """Begin a process, and wait for its end."""
        self.begin(life)
        return self.end()

    def begin(self, life: Life) -> None:
        """Begin a process."""
        assert self._process.stdin is not None
        self._process.stdin.write(as_line(life))
        self._process.stdin.flush()

    def end(self) -> Lived:
        """Wait for the end of the process that was begun."""
        lived = Lived()
        while "ended" not in (said := self.said()):
            lived.acknowledged = said.get("saved", lived.acknowledged)
            lived.calls = said.get("calls", lived.calls)
        lived.exit_code = said["ended"]
        return lived

    def said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the nursery is gone"
        said: dict[str, Any] = json.loads(line)
        return said


@contextmanager
def nursery() -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.train.kills.nursery"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, "AIOEXEC_JIT": "off"},
    )
    with process:
        found = Nursery(process)
        assert found.said() == {"ready": True}
        yield found
