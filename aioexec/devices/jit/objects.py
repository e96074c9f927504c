"""Object files: one compiled kernel, the symbols it refers to, and the check that it may be linked.

Whatever produced the bytes (our own LLVM run, the compiler child, the on-disk cache), they become code of
this process only if every name they leave undefined is on a list: C math, block memory functions, and symbols
the caller lists. A kernel that reaches for the interpreter (numba does that for `raise`, boxed values,
warnings) would take the GIL in the middle of a walk, so it is refused here.
"""

from __future__ import annotations

import struct
from collections.abc import Container

from aioexec.data_classes import dataclass

MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 "
    "fabs floor fma fmax fmin fmod hypot ldexp lgamma llrint log log10 log1p log2 lrint nearbyint pow "
    "remainder rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc"
)
MATH_SYMBOLS = frozenset(name + suffix for name in MATH.split() for suffix in ("", "f"))
MEMORY_SYMBOLS = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp"})
GEMM_SYMBOLS = frozenset({"aioexec_sgemm", "aioexec_dgemm"})


class ObjectRefusedError(Exception):
    """The bytes are not a supported object file, or refer to a name that is not on the list."""


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """The machine code of one kernel.

    Attributes:
        symbol: name of the function `int64 kernel(int64 *block, int64 *frame)` in it.
        image: the bytes of a relocatable ELF file.
    """

    symbol: str
    image: bytes


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Names an object file defines for others, and names it needs."""

    defined: frozenset[str]
    undefined: frozenset[str]


# Layouts of ELF64, little endian: the fields that are read from the file header, a section header and a symbol.
FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
RELOCATABLE = 1
SYMBOL_SECTION = 2
LOCAL_BINDING = 0


def read_symbols(image: bytes) -> SymbolTable:
    """Read the symbol table of a relocatable 64-bit ELF file.

    Raises:
        ObjectRefusedError: these bytes are not such a file.
    """
    try:
        return parse_symbols(image)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise ObjectRefusedError(f"object file of {len(image)} bytes: damaged, {error}") from error


def parse_symbols(image: bytes) -> SymbolTable:
    if not image.startswith(ELF64_LITTLE_ENDIAN):
        raise ObjectRefusedError(f"object file: expected 64-bit little-endian ELF, got {image[:6]!r}")
    header = FILE_HEADER.unpack_from(image)
    kind, table_offset, entry_size, count = header[1], header[6], header[11], header[12]
    if kind != RELOCATABLE or entry_size != SECTION_HEADER.size:
        raise ObjectRefusedError(f"object file: expected a relocatable one, got type {kind}")
    sections = [
        SECTION_HEADER.unpack_from(image, table_offset + index * entry_size) for index in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for section in sections:
        if section[1] == SYMBOL_SECTION:
            names = sections[section[6]]
            strings = image[names[4] : names[4] + names[5]]
            collect(image[section[4] : section[4] + section[5]], strings, defined, undefined)
    return SymbolTable(frozenset(defined), frozenset(undefined))


def collect(symbols: bytes, strings: bytes, defined: set[str], undefined: set[str]) -> None:
    """Sort the global names of one symbol table into defined and undefined ones."""
    for name_offset, info, _, section, _, _ in SYMBOL.iter_unpack(symbols):
        if info >> 4 == LOCAL_BINDING:
            continue
        name = strings[name_offset : strings.index(b"\0", name_offset)].decode("ascii")
        (undefined if section == 0 else defined).add(name)


def check_symbols(code: ObjectCode, allowed: Container[str]) -> frozenset[str]:
    """Return the names this object needs, all of them allowed.

    Raises:
        ObjectRefusedError: the file is damaged, lacks its own symbol, or needs a name outside `allowed`.
    """
    table = read_symbols(code.image)
    if code.symbol not in table.defined:
        raise ObjectRefusedError(f"object file: expected it to define {code.symbol!r}, it does not")
    foreign = sorted(name for name in table.undefined if name not in allowed)
    if foreign:
        raise ObjectRefusedError(f"object file refers to {', '.join(foreign)}, which no kernel may call")
    return table.undefined
