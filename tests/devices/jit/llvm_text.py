"""A parser of the LLVM IR that the walker consists of, for tests that run it step by step or translate it to C.

It supports the instructions that occur there; any other is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_NAME = r"[%@][\w.]+"
_VALUE = r"(?:[%@][\w.]+|-?\d+|null|true)"
_ATOMIC = r"(?:( atomic| volatile))?"
_PATTERNS = {
    "gep": rf"getelementptr (\w+), ptr ({_VALUE}), i64 ({_VALUE})",
    "load": rf"load{_ATOMIC} \w+, ptr ({_VALUE})(?: (\w+), align 8)?",
    "store": rf"store{_ATOMIC} \w+ ({_VALUE}), ptr ({_VALUE})(?: (\w+), align 8)?",
    "rmw": rf"atomicrmw (add|sub|and|or) ptr ({_VALUE}), i64 ({_VALUE}) seq_cst",
    "cmpxchg": rf"cmpxchg ptr ({_VALUE}), i64 ({_VALUE}), i64 ({_VALUE}) seq_cst seq_cst",
    "succeeded": rf"extractvalue {{ i64, i1 }} ({_VALUE}), 1",
    "icmp": rf"icmp (\w+) \w+ ({_VALUE}), ({_VALUE})",
    "binary": rf"(add|sub|mul|or|and|xor) \w+ ({_VALUE}), ({_VALUE})",
    "copy": rf"zext i1 ({_VALUE}) to i64",
    "select": rf"select i1 ({_VALUE}), \w+ ({_VALUE}), \w+ ({_VALUE})",
    "phi": r"phi \w+ (.*)",
    "jump": r"br label %([\w.]+)",
    "branch": rf"br i1 ({_VALUE}), label %([\w.]+), label %([\w.]+)",
    "switch": rf"switch i64 ({_VALUE}), label %([\w.]+) \[(.*)\]",
    "call": rf"call \w+ ({_NAME})\((.*)\)",
    "ret": rf"ret (?:void|\w+ ({_VALUE}))",
}
_COMPILED = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
_LINE = re.compile(rf"(?:({_NAME}) = )?(.*)")
# Operators of Python and of C alike, and bytes.
COMPARISONS = {
    "eq": "==",
    "ne": "!=",
    "slt": "<",
    "sgt": ">",
    "sle": "<=",
    "ult": "<",
    "ugt": ">",
    "ule": "<=",
}
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "or": "|", "and": "&", "xor": "^"}
SIZES = {"i64": 8, "ptr": 8, "i8": 1}


@dataclass(frozen=True, slots=True)
class Instruction:
    """`kind` is a key of the patterns above, `parts` what they capture; a phi has pairs of a value and a label in `pairs`, a
    switch pairs of a number and a label."""

    kind: str
    result: str | None
    parts: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def is_atomic(self) -> bool:
        """Whether other threads may access the same word at the same time; volatile accesses are taken for relaxed ones."""
        return self.kind in ("rmw", "cmpxchg") or (self.kind in ("load", "store") and bool(self.parts[0]))

    @property
    def arguments(self) -> list[str]:
        """The values a call passes."""
        return [each.split()[-1] for each in self.parts[1].split(",")] if self.parts[1] else []

    @property
    def uses(self) -> list[str]:
        """The registers it reads; of a phi none, since they are read where the edge begins."""
        if self.kind == "phi":
            return []
        values = [*self.arguments, self.parts[0]] if self.kind == "call" else list(self.parts)
        return [value for value in values if value.startswith("%")]

    @property
    def targets(self) -> list[str]:
        """The blocks it may go to."""
        if self.kind == "jump":
            return [self.parts[0]]
        if self.kind == "branch":
            return list(self.parts[1:])
        return [self.parts[1], *(label for _, label in self.pairs)] if self.kind == "switch" else []


@dataclass(slots=True)
class Function:
    """Its blocks by label, the entry first."""

    name: str
    parameters: list[str]
    blocks: dict[str, list[Instruction]] = field(default_factory=dict)


def parse(text: str) -> dict[str, Function]:
    """The functions that a module defines, by name; functions with instructions that are not known are left out, which an
    instruction that calls one makes an error where it is translated."""
    functions = {}
    for header, body in re.findall(r"^define (.*?) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        signature = re.fullmatch(r"(?:internal )?\w+ @(\w+)\((.*)\)", header)
        assert signature is not None, header
        name = signature[1]
        function = Function(name, re.findall(r"%[\w.]+", signature[2]))
        try:
            _fill(function, body)
        except ValueError:
            continue
        functions[name] = function
    return functions


def _fill(function: Function, body: str) -> None:
    block: list[Instruction] | None = None
    for line in _joined(body):
        if label := re.fullmatch(r"([\w.]+):", line):
            block = function.blocks[label[1]] = []
            continue
        if block is None:
            block = function.blocks["entry"] = []
        block.append(_instruction(line))


def _joined(body: str) -> Iterator[str]:
    """The lines without comments, a switch in one line."""
    whole = ""
    for line in body.splitlines():
        whole = f"{whole} {line.split(';')[0].strip()}".strip()
        if whole and not ("[" in whole and whole.startswith("switch") and "]" not in whole):
            yield whole
            whole = ""


def _instruction(line: str) -> Instruction:
    whole = _LINE.fullmatch(line)
    assert whole is not None, line
    result, rest = whole.groups()
    for kind, pattern in _COMPILED.items():
        if found := pattern.fullmatch(rest):
            parts = tuple(part.strip() if part else "" for part in found.groups())
            if kind == "phi":
                return Instruction(
                    kind, result, (), tuple(re.findall(rf"\[ ({_VALUE}), %([\w.]+) \]", parts[0]))
                )
            if kind == "switch":
                pairs = tuple(re.findall(r"i64 (\d+), label %([\w.]+)", parts[2]))
                return Instruction(kind, result, parts[:2], pairs)
            return Instruction(kind, result, parts)
    raise ValueError(f"cannot parse {line!r}")
