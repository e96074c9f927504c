"""What a subcommand prints: tables for a person, JSON for a program."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

_WIDTH = 140
"""The line width in characters if there is no terminal."""


def console() -> Console:
    """A console on the standard output, wide if it is no terminal."""
    made = Console(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _WIDTH
    return made


def print_json(data: Any) -> None:
    """Print data as one JSON document.

    Dataclasses become objects, arrays nested lists, bytes text in UTF-8 (others: with escapes). NaN and infinities are strings,
    as in protobuf's JSON: "NaN", "Infinity", "-Infinity".
    """
    print(json.dumps(_plain(data), indent=1, allow_nan=False))


def print_json_line(data: Any) -> None:
    """Print the same as one line, at once: a program that has started a server waits for the end of a line."""
    print(json.dumps(_plain(data), allow_nan=False), flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), title: str = ""
) -> None:
    """Print rows of text below headings; the columns named in `right` are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out = console()
    if title:
        out.print(title)
    out.print(table)


def byte_size(size: int) -> str:
    """A number of bytes for a person, such as "1.5 MiB"."""
    amount, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.0f} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def shape_text(shape: Sequence[int | None] | None) -> str:
    """A shape for a person, such as "[?, 784]"; "unknown" without a rank."""
    if shape is None:
        return "unknown"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _plain(data: Any) -> Any:
    """The same of what JSON has."""
    if is_dataclass(data) and not isinstance(data, type):
        return _plain(asdict(data))
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, np.ndarray | np.generic):
        return _plain(data.tolist())
    if isinstance(data, list | tuple | set | frozenset):
        return [_plain(value) for value in data]
    if isinstance(data, bytes):
        return data.decode(errors="backslashreplace")
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, complex):
        return [_plain(data.real), _plain(data.imag)]
    return data
