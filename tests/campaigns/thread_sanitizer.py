"""Parallel regions under ThreadSanitizer: the walker's IR translated to C, with owners and helpers as real threads.

`python -m tests.campaigns.thread_sanitizer [--regions N] [--owners N] [--helpers N]` needs a gcc with libtsan. Each owner
executes regions one after another in the same memory, and writes that memory in between; each fourth region is cancelled. It
prints ThreadSanitizer's reports; the exit status is nonzero if there are any or a result is wrong.

Each instruction becomes one statement of C: atomic ones the builtins of gcc, with the same memory order; all others plain
accesses.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from aioexec.devices.jit import walker
from aioexec.devices.threads import parallel_region, spinning, team
from tests.devices.jit.llvm_text import COMPARISONS, OPERATORS, SIZES, Function, Instruction, parse
from tests.devices.jit.region_model import portable_text

_ORDERS = {
    "": "__ATOMIC_RELAXED",
    "monotonic": "__ATOMIC_RELAXED",
    "acquire": "__ATOMIC_ACQUIRE",
    "release": "__ATOMIC_RELEASE",
    "seq_cst": "__ATOMIC_SEQ_CST",
}
_TRANSLATED = ("lane", "walk", "walk_plain", "walk_traced", "stamp", "serve", "help", "team_word", "team_pointer",
               "frame_of", "set_up", "open", "close", "team")  # fmt: skip
_HARNESS = Path(__file__).with_name("thread_sanitizer.c")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", type=int, default=100_000, help="regions of each owner")
    parser.add_argument("--owners", type=int, default=2)
    parser.add_argument("--helpers", type=int, default=2)
    arguments = parser.parse_args()
    done = run(portable_text(), arguments.regions, arguments.owners, arguments.helpers)
    print(f"{arguments.owners} x {arguments.regions} regions: {done.stdout}{done.stderr}")
    return done.returncode


def is_available() -> bool:
    """Whether there is a compiler with ThreadSanitizer."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return False
    found = subprocess.run(
        [compiler, "-print-file-name=libtsan.so"], capture_output=True, text=True, check=False
    )
    return Path(found.stdout.strip()).is_absolute()


def run(text: str, regions: int, owners: int, helpers: int) -> subprocess.CompletedProcess[str]:
    """Do regions by the IR of a walker; the process has ended with 0 if all is well."""
    with tempfile.TemporaryDirectory(prefix="aioexec-tsan-") as name:
        folder = Path(name)
        (folder / "walker.c").write_text(to_c(text))
        command = [
            "gcc",
            "-std=gnu11",
            "-O1",
            "-g",
            "-w",
            "-fsanitize=thread",
            "-fno-strict-aliasing",
            f"-I{folder}",
        ]
        subprocess.run([*command, _HARNESS, "-o", folder / "regions", "-pthread"], check=True)
        return subprocess.run(
            [folder / "regions", str(regions), str(owners), str(helpers)],
            env={"TSAN_OPTIONS": "halt_on_error=1"},
            capture_output=True,
            text=True,
            check=False,
        )


# C


def to_c(text: str) -> str:
    """The functions of a region, and the numbers that the harness needs."""
    functions = parse(text)
    lines: list[str] = []
    numbers = {
        "DONE": parallel_region.LaneOutcome.DONE,
        "PAUSED": parallel_region.LaneOutcome.PAUSED,
        "CALL": parallel_region.LaneOutcome.CALL,
        "ENDLESS": parallel_region.ENDLESS,
    }
    numbers |= {
        "TEAM_WORDS": team.HEADER,
        "STATE_WORDS": parallel_region.HEADER,
        "TASK_WORDS": parallel_region.TASK_WORDS,
    }
    numbers |= {"PLACES": spinning.PLACES, "PLACES_AT": spinning.HEADER, "PLACE_WORDS": spinning.PLACE_WORDS}
    numbers |= {
        "STOPPED": parallel_region.STOPPED,
        "FRAME_HEADER": walker.HEADER,
        "CANCEL": walker.CANCEL,
        "ROWS": walker.ROWS,
    }
    numbers |= {"ROW_COUNT": walker.ROW_COUNT, "SPIN_TIMEOUT_NS": spinning.SPIN_TIMEOUT_NS}
    lines += [f"enum {{ {name} = {number} }};" for name, number in numbers.items() if number < 1 << 31]
    lines.append(f"#define ENDLESS {parallel_region.ENDLESS}LL")
    lines.append("static word owner[1] = {-1};")
    lines += [f"{_signature(functions[name])};" for name in _TRANSLATED]
    for name in _TRANSLATED:
        lines += _function(functions[name], functions)
    return "\n".join(lines)


def _signature(function: Function) -> str:
    return (
        f"static word f_{function.name}({', '.join('word ' + _value(each) for each in function.parameters)})"
    )


def _function(function: Function, functions: Mapping[str, Function]) -> Iterator[str]:
    yield f"{_signature(function)} {{"
    results = [each.result for block in function.blocks.values() for each in block if each.result]
    yield f"  word {', '.join(map(_value, results))};" if results else ""
    for label, block in function.blocks.items():
        yield f"b_{label.replace('.', '_')}:;"
        for instruction in block:
            if instruction.kind != "phi":
                yield f"  {_statement(function, label, instruction)}"
    yield "}"


def _value(name: str) -> str:
    if name.startswith("%"):
        return "r_" + name[1:].replace(".", "_")
    return {"null": "0", "true": "1", "@owner": "(word)owner"}.get(name, f"{name}LL")


def _goto(function: Function, source: str, target: str) -> str:
    """Go to a block: its phis get their values at once."""
    phis = [each for each in function.blocks[target] if each.kind == "phi"]
    values = [next(value for value, at in each.pairs if at == source) for each in phis]
    copies = " ".join(f"word t{k} = {_value(value)};" for k, value in enumerate(values))
    sets = " ".join(f"{_value(each.result or '')} = t{k};" for k, each in enumerate(phis))
    return f"{{ {copies} {sets} goto b_{target.replace('.', '_')}; }}"


def _statement(function: Function, label: str, instruction: Instruction) -> str:
    kind, parts = instruction.kind, instruction.parts
    if kind == "ret":
        return f"return {_value(parts[0]) if parts[0] else '0'};"
    if kind == "jump":
        return _goto(function, label, parts[0])
    if kind == "branch":
        chosen, other = (_goto(function, label, target) for target in parts[1:])
        return f"if ({_value(parts[0])}) {chosen} else {other}"
    if kind == "switch":
        cases = " ".join(
            f"case {number}: {_goto(function, label, target)}" for number, target in instruction.pairs
        )
        return f"switch ({_value(parts[0])}) {{ {cases} default: {_goto(function, label, parts[1])} }}"
    expression = _expression(instruction)
    return f"{_value(instruction.result)} = {expression};" if instruction.result else f"{expression};"


def _expression(instruction: Instruction) -> str:
    kind, parts = instruction.kind, instruction.parts
    values = [_value(part) if part else "" for part in parts]
    if kind == "gep":
        return f"{values[1]} + {values[2]} * {SIZES[parts[0]]}"
    if kind == "load":
        at = f"(word *){values[1]}"
        return f"__atomic_load_n({at}, {_ORDERS[parts[2]]})" if instruction.is_atomic else f"*({at})"
    if kind == "store":
        at = f"(word *){values[2]}"
        if instruction.is_atomic:
            return f"__atomic_store_n({at}, {values[1]}, {_ORDERS[parts[3]]})"
        return f"*({at}) = {values[1]}"
    if kind == "rmw":
        return f"__atomic_fetch_{parts[0]}((word *){values[1]}, {values[2]}, __ATOMIC_SEQ_CST)"
    if kind == "cmpxchg":
        expected = f"&(word){{{values[1]}}}"
        return (
            f"__atomic_compare_exchange_n((word *){values[0]}, {expected}, {values[2]}, 0, "
            "__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)"
        )
    if kind in ("succeeded", "copy"):
        return values[0]
    if kind == "icmp":
        as_unsigned = "(uint64_t)" if parts[0].startswith("u") else ""
        return f"{as_unsigned}{values[1]} {COMPARISONS[parts[0]]} {as_unsigned}{values[2]}"
    if kind == "binary":
        return f"{values[1]} {OPERATORS[parts[0]]} {values[2]}"
    if kind == "select":
        return f"{values[0]} ? {values[1]} : {values[2]}"
    assert kind == "call", kind
    arguments = ", ".join(map(_value, instruction.arguments))
    name = parts[0][1:]
    if parts[0].startswith("%"):
        return f"((word (*)(word, word)){_value(parts[0])})({arguments})"
    return f"f_{name}({arguments})" if name in _TRANSLATED else f"{name}_now({arguments})"


if __name__ == "__main__":
    raise SystemExit(main())
