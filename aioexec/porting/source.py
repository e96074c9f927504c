"""A file of Python: its text, its syntax tree, and edits of the text.

Places are offsets in characters. `ast` counts bytes of UTF-8 in a line, so lines that are not ASCII are converted.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")


class Source:
    """A parsed file.

    Constant: `path`, `text`, `tree`, `parents` (of each node its parent). `edits` grows while the file is ported.

    Raises:
        SyntaxError: the text is no Python 3.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.edits = Edits(text)
        self._lines: list[str] = _LINE.findall(text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self._lines)

    @property
    def newline(self) -> str:
        """The line ending of the file."""
        return "\r\n" if self._lines and self._lines[0].endswith("\r\n") else "\n"

    def offset(self, line: int, column: int) -> int:
        """The offset of a place that `ast` gives."""
        content = self._lines[line - 1] if line <= len(self._lines) else ""
        if not content.isascii():
            column = len(content.encode()[:column].decode(errors="ignore"))
        return self._starts[line - 1] + column

    def start(self, node: Any) -> int:
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Any) -> int:
        return self.offset(node.end_lineno, node.end_col_offset)

    def first_line(self, statement: Any) -> int:
        """The line where a statement begins, with its decorators and the comments right before it."""
        decorators = getattr(statement, "decorator_list", ())
        line = min(each.lineno for each in (statement, *decorators))
        while line > 1 and self._lines[line - 2].strip().startswith("#"):
            line -= 1
        return int(line)

    def segment(self, node: Any) -> str:
        return self.text[self.start(node) : self.end(node)]

    def line_start(self, line: int) -> int:
        return self._starts[line - 1]

    def line_end(self, line: int) -> int:
        """Behind the line ending of a line."""
        return self._starts[line]

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def indentation(self, line: int) -> str:
        content = self._lines[line - 1]
        return content[: len(content) - len(content.lstrip(" \t"))]

    def unit(self) -> str:
        """One level of indentation: that of the first indented statement."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                own, inner = self.indentation(node.lineno), self.indentation(body[0].lineno)
                if inner.startswith(own) and inner != own:
                    return inner[len(own) :]
        return "    "

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement_of(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block_end(self, statement: ast.stmt) -> int:
        """The last line of a compound statement, with comments behind it that are indented as its body is."""
        assert statement.end_lineno is not None
        last, own = statement.end_lineno, len(self.indentation(statement.lineno))
        for line in range(last + 1, len(self._lines) + 1):
            content = self._lines[line - 1].strip()
            if content and (not content.startswith("#") or len(self.indentation(line)) <= own):
                break
            last = line if content else last
        return last

    def indent(self, first: int, last: int) -> None:
        """Indent lines by one level; lines that begin inside a string stay as they are."""
        inside = self._lines_inside_strings()
        for line in range(first, last + 1):
            if line not in inside and self._lines[line - 1].strip():
                self.edits.insert(self.line_start(line), self.unit(), before=True)

    def _lines_inside_strings(self) -> set[int]:
        """Lines whose beginning is part of a string."""
        inside: set[int] = set()
        begun: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text, newline="").readline):
            name = tokenize.tok_name[token.type]
            if name == "FSTRING_START":  # a token of its own since Python 3.12
                begun.append(token.start[0])
            elif name == "FSTRING_END":
                inside.update(range(begun.pop() + 1, token.end[0] + 1))
            elif token.type == tokenize.STRING:
                inside.update(range(token.start[0] + 1, token.end[0] + 1))
        return inside


class Edits:
    """Replacements of parts of a text, which do not overlap. At one offset, closing texts come before opening ones."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, int, int, str]] = []
        """(start, rank, number, end, replacement); the number keeps the order of edits with one start and rank."""

    def __bool__(self) -> bool:
        return bool(self._edits)

    def insert(self, offset: int, text: str, *, before: bool = False) -> None:
        """Insert a text; with `before`, in front of whatever else is inserted there."""
        self._add(offset, offset, text, -1 if before else 1)

    def has(self, offset: int, text: str) -> bool:
        """Whether a text is inserted at an offset."""
        return any(edit[0] == offset and edit[4] == text for edit in self._edits)

    def wrap(self, start: int, end: int, opening: str, closing: str) -> None:
        """Put texts around a part; around parts that share an end, the inner ones must be wrapped first."""
        self._edits.append((start, 1, -len(self._edits), start, opening))
        if closing:
            self._add(end, end, closing, 0)

    def replace(self, start: int, end: int, text: str) -> None:
        self._add(start, end, text, 2)

    def _add(self, start: int, end: int, text: str, rank: int) -> None:
        self._edits.append((start, rank, len(self._edits), end, text))

    def apply(self) -> str:
        """The edited text."""
        parts: list[str] = []
        done = 0
        for start, _, _, end, text in sorted(self._edits):
            assert start >= done, f"edits overlap at {start}: {text!r}"
            parts += [self._text[done:start], text]
            done = end
        parts.append(self._text[done:])
        return "".join(parts)
