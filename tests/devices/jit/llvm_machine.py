"""Runs LLVM IR for several threads step by step, so that every interleaving of their steps can be explored (see `exploration`).

A step of a thread begins with an atomic memory access and extends to the next one: in between the thread accesses only its own
data, unless there is a data race. Each step checks for one: a non-atomic access conflicts with accesses of another thread
since its last release operation. An access outside of allocated memory, or a misaligned one, is an error too.

The functions are translated to Python: a segment, which is a Python function, begins at each step, at each block, and after
each call. A thread is a stack of segments with the values of the live registers, which can be hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.devices.jit.llvm_text import COMPARISONS, OPERATORS, SIZES, Function, Instruction

NOTHING: frozenset[int] = frozenset()


class FaultError(AssertionError):
    """A program's action in this interleaving is an error."""


class Thread(NamedTuple):
    """`stack`: segments with their registers, the present one last. Words accessed since the thread last published something:
    read, read by atomic loads, and written."""

    stack: tuple[tuple[int, tuple[int, ...]], ...]
    reads: frozenset[int] = NOTHING
    atomic_reads: frozenset[int] = NOTHING
    writes: frozenset[int] = NOTHING


class State(NamedTuple):
    memory: tuple[int | None, ...]
    threads: tuple[Thread, ...]


class Memory:
    """The memory a state begins with: words at addresses that are multiples of 8, with a gap behind each allocation."""

    def __init__(self) -> None:
        self.words: list[int | None] = [None]
        self.constant: set[int] = set()

    def allocate(self, words: Sequence[int], constant: bool = False) -> int:
        """The address of new words; constant ones may not be written."""
        begin = len(self.words)
        self.words += [*words, None]
        if constant:
            self.constant.update(range(begin, begin + len(words)))
        return begin * 8


class Machine:
    """What segments call, for one step of one thread.

    Args:
        intrinsics: functions of this machine and their arguments that stand for those the IR only declares; `kernel` is called
            for a call of a pointer, with that pointer first.
    """

    def __init__(
        self,
        functions: Mapping[str, Function],
        intrinsics: Mapping[str, Callable[..., int | None]],
        constant: frozenset[int],
    ) -> None:
        self.intrinsics = intrinsics
        self._constant = constant
        self.memory: list[int | None] = []
        self.present = 0
        self._others: list[Thread] = []
        self._reads: set[int] = set()
        self._atomic_reads: set[int] = set()
        self._writes: set[int] = set()
        self.choice = 0
        self.has_chosen = False
        self.segments: list[Callable[..., Any]] = []
        self.names: list[str] = []
        self.begins_step: list[bool] = []
        self.entries = _translate(functions, self)

    def call(self, name: str, *arguments: int) -> Thread:
        """A thread that calls a function."""
        return Thread(((self.entries[name], arguments),))

    def step(self, state: State, number: int, choice: int = 0) -> State:
        """The state after a step of a thread."""
        self.memory = list(state.memory)
        self.present = number
        self._others = [thread for k, thread in enumerate(state.threads) if k != number]
        mine = state.threads[number]
        self._reads, self._atomic_reads, self._writes = (
            set(mine.reads),
            set(mine.atomic_reads),
            set(mine.writes),
        )
        self.choice, self.has_chosen = choice, False
        stack = list(mine.stack)
        is_first = True
        while stack:
            segment, registers = stack[-1]
            if self.begins_step[segment] and not is_first:
                break
            is_first = is_first and not self.begins_step[segment]
            stack.pop()
            after = self.segments[segment](*registers)
            if len(after) == 1:  # a return: its value goes to the caller, the next frame
                if stack:
                    caller, kept = stack.pop()
                    stack.append((caller, (*kept, after[0])))
            else:
                if len(after) == 4:  # a call: what follows it waits below
                    stack.append(after[2:])
                stack.append(after[:2])
        if stack:
            thread = Thread(
                tuple(stack), frozenset(self._reads), frozenset(self._atomic_reads), frozenset(self._writes)
            )
        else:
            thread = Thread(())
        threads = list(state.threads)
        threads[number] = thread
        return State(tuple(self.memory), tuple(threads))

    def choose(self) -> int:
        """0 or 1: both are explored."""
        assert not self.has_chosen, "one choice in a step"
        self.has_chosen = True
        return self.choice

    # Memory

    def _word(self, address: int) -> int:
        word = address >> 3
        if address & 7 or not 0 < word < len(self.memory) or self.memory[word] is None:
            raise FaultError(f"an access outside of memory, at {address}")
        return word

    def load(self, address: int) -> Any:
        word = self._word(address)
        if word not in self._constant:
            self._reads.add(word)
            for other in self._others:
                if word in other.writes:
                    raise FaultError(f"a data race: word {word} is read while another thread writes it")
        return self.memory[word]

    def store(self, value: int, address: int) -> None:
        word = self._word(address)
        assert word not in self._constant, "constant"
        self._writes.add(word)
        for other in self._others:
            if word in other.writes or word in other.reads or word in other.atomic_reads:
                raise FaultError(f"a data race: word {word} is written while another thread uses it")
        self.memory[word] = value

    def load_atomic(self, address: int) -> Any:
        word = self._word(address)
        self._atomic_reads.add(word)
        for other in self._others:
            if word in other.writes:
                raise FaultError(f"a data race: word {word} is read while another thread writes it")
        return self.memory[word]

    def store_atomic(self, value: int, address: int, publishes: bool) -> None:
        word = self._word(address)
        for other in self._others:
            if word in other.writes or word in other.reads:
                raise FaultError(f"a data race: word {word} is written while another thread uses it")
        if publishes:
            self.publish()
        self.memory[word] = value

    def publish(self) -> None:
        """What the thread has done is visible to a thread that sees this access."""
        self._reads, self._atomic_reads, self._writes = set(), set(), set()

    def rmw(self, operation: str, address: int, value: int) -> int:
        before: int = self.load_atomic(address)
        after = {
            "add": before + value,
            "sub": before - value,
            "and": before & value,
            "or": before | value,
        }[operation]
        self.store_atomic(after, address, True)
        return before

    def cmpxchg(self, address: int, expected: int, value: int) -> int:
        """Whether it has exchanged."""
        if self.load_atomic(address) != expected:
            return 0
        self.store_atomic(value, address, True)
        return 1


def _register(name: str) -> str:
    """A Python expression for a value."""
    if name.startswith("%"):
        return "r_" + name[1:].replace(".", "_")
    return {"null": "0", "true": "1"}.get(name, name)


def _translate(functions: Mapping[str, Function], machine: Machine) -> dict[str, int]:
    """Fill the machine's segments; return that of each function's entry."""
    translators = {name: _Translator(function, functions) for name, function in functions.items()}
    for translator in translators.values():
        for key in translator.cuts():
            translator.numbers[key] = len(machine.names)
            machine.names.append(f"{translator.function.name}.{key[0]}[{key[1]}]")
            machine.begins_step.append(translator.synchronizes(key))
    entries = {name: translator.numbers["entry", 0] for name, translator in translators.items()}
    for translator in translators.values():
        for key in translator.cuts():
            names: dict[str, Any] = {"m": machine, "entries": entries}
            source = translator.source(key)
            try:
                exec(source, names)
            except SyntaxError:
                raise AssertionError(source) from None
            machine.segments.append(names["segment"])
    return entries


class _Translator:
    """Translates one function. A segment's key is a block's label and the place of its first instruction, which for a block is
    that behind its phis, or 0 for the entry of the function."""

    def __init__(self, function: Function, functions: Mapping[str, Function]) -> None:
        self.function = function
        self.numbers: dict[tuple[str, int], int] = {}
        self._functions = functions
        self._live = self._live_in()

    def synchronizes(self, key: tuple[str, int]) -> bool:
        return self.function.blocks[key[0]][key[1]].is_atomic

    def _is_call(self, instruction: Instruction) -> bool:
        return instruction.kind == "call" and instruction.parts[0][1:] in self._functions

    def _first(self, label: str) -> int:
        return sum(instruction.kind == "phi" for instruction in self.function.blocks[label])

    def cuts(self) -> list[tuple[str, int]]:
        found = []
        for label, block in self.function.blocks.items():
            first = self._first(label)
            found += [
                (label, k)
                for k in range(first, len(block))
                if k == first or block[k].is_atomic or self._is_call(block[k - 1])
            ]
        return found

    # Registers that are needed later

    def _live_in(self) -> dict[str, set[str]]:
        blocks = self.function.blocks
        live: dict[str, set[str]] = {label: set() for label in blocks}
        changed = True
        while changed:
            changed = False
            for label in reversed(blocks):
                self._live = live
                found = self._live_at(label, self._first(label))
                if found != live[label]:
                    live[label], changed = found, True
        return live

    def _live_at(self, label: str, place: int) -> set[str]:
        block = self.function.blocks[label]
        live: set[str] = set()
        for target in block[-1].targets:
            phis = self._phis(target, label)
            live |= {phis.get(name, name) for name in self._live[target]}
        live = {name for name in live if name.startswith("%")}
        for instruction in reversed(block[place:]):
            live.discard(instruction.result or "")
            live.update(instruction.uses)
        return live

    def _phis(self, label: str, source: str) -> dict[str, str]:
        """What each phi of a block is if one comes from `source`."""
        found = {}
        for instruction in self.function.blocks[label]:
            if instruction.kind == "phi":
                found[instruction.result or ""] = next(
                    value for value, at in instruction.pairs if at == source
                )
        return found

    # Python

    def _parameters(self, label: str, place: int) -> list[str]:
        if (label, place) == ("entry", 0):
            return self.function.parameters
        live = sorted(self._live_at(label, place))
        before = self.function.blocks[label][place - 1] if place > self._first(label) else None
        if before is not None and self._is_call(before):
            result = before.result or "%unused"
            return [name for name in live if name != result] + [result]
        return live

    def _edge(self, source: str, target: str) -> str:
        first = self._first(target)
        phis = self._phis(target, source)
        arguments = [phis.get(name, name) for name in self._parameters(target, first)]
        return f"({self.numbers[target, first]}, ({''.join(_register(value) + ', ' for value in arguments)}))"

    def source(self, key: tuple[str, int]) -> str:
        label, place = key
        block = self.function.blocks[label]
        lines = [f"def segment({', '.join(map(_register, self._parameters(label, place)))}):"]
        for k in range(place, len(block)):
            if k > place and (label, k) in self.numbers:
                live = "".join(_register(name) + ", " for name in self._parameters(label, k))
                lines.append(f"return {self.numbers[label, k]}, ({live})")
                break
            if self._is_call(block[k]):
                arguments = "".join(_register(value) + ", " for value in block[k].arguments)
                kept = "".join(_register(name) + ", " for name in self._parameters(label, k + 1)[:-1])
                entry = f"entries[{block[k].parts[0][1:]!r}]"
                lines.append(f"return {entry}, ({arguments}), {self.numbers[label, k + 1]}, ({kept})")
                break
            lines.append(self._statement(label, block[k]))
        return "\n    ".join(lines)

    def _statement(self, label: str, instruction: Instruction) -> str:
        kind, parts = instruction.kind, instruction.parts
        if kind == "ret":
            return f"return ({_register(parts[0] or '0')},)"
        if kind == "jump":
            return f"return {self._edge(label, parts[0])}"
        if kind == "branch":
            chosen, other = (self._edge(label, target) for target in parts[1:])
            return f"return {chosen} if {_register(parts[0])} else {other}"
        if kind == "switch":
            cases = ", ".join(
                f"{number}: {self._edge(label, target)}" for number, target in instruction.pairs
            )
            return f"return {{{cases}}}.get({_register(parts[0])}, {self._edge(label, parts[1])})"
        expression = self._expression(instruction)
        return f"{_register(instruction.result)} = {expression}" if instruction.result else expression

    def _expression(self, instruction: Instruction) -> str:
        kind, parts = instruction.kind, instruction.parts
        values = [_register(part) for part in parts]
        if kind == "gep":
            return f"{values[1]} + {values[2]} * {SIZES[parts[0]]}"
        if kind == "load":
            return f"m.load{'_atomic' if instruction.is_atomic else ''}({values[1]})"
        if kind == "store":
            publishes = f", {parts[3] in ('release', 'seq_cst')}" if instruction.is_atomic else ""
            return f"m.store{'_atomic' if instruction.is_atomic else ''}({values[1]}, {values[2]}{publishes})"
        if kind == "rmw":
            return f"m.rmw({parts[0]!r}, {values[1]}, {values[2]})"
        if kind == "cmpxchg":
            return f"m.cmpxchg({', '.join(values)})"
        if kind in ("succeeded", "copy"):
            return values[0]
        if kind == "icmp":
            return f"int({values[1]} {COMPARISONS[parts[0]]} {values[2]})"
        if kind == "binary":
            return f"{values[1]} {OPERATORS[parts[0]]} {values[2]}"
        if kind == "select":
            return f"{values[1]} if {values[0]} else {values[2]}"
        assert kind == "call", kind
        arguments = ", ".join(map(_register, instruction.arguments))
        if parts[0].startswith("%"):
            return f"m.intrinsics['kernel'](m, {_register(parts[0])}, {arguments})"
        return f"m.intrinsics[{parts[0][1:]!r}](m, {arguments})"
