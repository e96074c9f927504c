"""What a port could not decide or do by itself."""

from __future__ import annotations

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A place of a program that needs a look, and what to do there."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"
