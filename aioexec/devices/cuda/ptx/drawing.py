"""Kernels for GPUs that draw random numbers: the generator Philox-4x32-10, and the conversions of TensorFlow's random ops.

The numbers are those of the reference kernels (`ops.random.philox`): uniform ones and integers bit by bit, normal ones up to
the rounding of the elementary functions. A counter of 128 bits, with a key of 64, gives four words, and so four numbers, or two
of 64 bits. Thread n computes the counters `start` + n, n + threads, ... and writes what they give. Truncated normal numbers are
drawn again until they are within the bound, so a group of them has a range of counters of its own.

The pointer is the output. The integer parameters: the number of elements, the key, the lower and the upper half of the first
counter, and of integers the least one and how many follow.
"""

from __future__ import annotations

from math import pi

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.far_arguments import define_c_functions
from aioexec.devices.cuda.ptx.threads import module_text, parameters
from aioexec.devices.cuda.ptx.writer import Writer
from aioexec.devices.jit.llvm.expressions import Body, Module, translate
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES
from aioexec.graph.kernels.kernel import ElementwiseKernel
from aioexec.graph.kernels.random import Distribution

ENTRY = "aioexec_random"
INTS = 6
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
BOUND = 2.0
COUNTERS_PER_NUMBER = 64
"""Counters of a truncated normal number: a quarter of those that are reserved, since each counter gives four words."""
MANTISSAS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn."""

    distribution: Distribution
    dtype: str

    @property
    def group(self) -> int:
        """The numbers that a counter gives."""
        return 2 if ITEM_SIZES[self.dtype] == 8 else 4


def bodies_of(given: Drawing) -> dict[str, tuple[str, tuple[str, ...], str]]:
    """The conversions that a kernel uses: body, input dtypes (of x and v) and output dtype."""
    wide = "float64" if given.dtype == "float64" else "float32"
    bits = "uint64" if given.dtype == "float64" else "uint32"
    mantissa = MANTISSAS[given.dtype if given.distribution == "Uniform" else wide]
    uniform = f"y = cast(x, {wide!r}) * {2.0**-mantissa!r}"
    angle = f"t = cast({2 * pi!r} * cast(v, 'float64'), {wide!r})"
    radius = "r = sqrt(-2.0 * log(maximum(x, 1e-07)))"
    return {
        "uniform": (uniform, (bits,), wide),
        "narrow": (f"y = cast(x, {given.dtype!r})", (wide,), given.dtype),
        **{
            f"normal_{function}": (f"{radius}; {angle}; y = {function}(t) * r", (wide, wide), wide)
            for function in ("sin", "cos")
        },
    }


def emit(given: Drawing) -> str:
    """Write the module that defines ENTRY."""
    module, bodies = Module(1), dict[str, Body]()
    if given.distribution not in ("UniformInt", "FullInt"):
        for name, (text, inputs, output) in bodies_of(given).items():
            named = tuple(zip("xv", inputs, strict=False))
            bodies[name] = translate(ElementwiseKernel(text, named, (("y", output),), ""), module)
    kernel = _Kernel(given, bodies)
    texts = [
        *(body.text.replace(f"{body.symbol}(", f"@{name}(") for name, body in bodies.items()),
        *module.functions.values(),
        *module.declarations.values(),
    ]
    return module_text([*kernel.text(), *define_c_functions(texts)])


class _Kernel:
    """The function under construction; `mantissa`, the random bits of a uniform number."""

    def __init__(self, given: Drawing, bodies: dict[str, Body]) -> None:
        self.given, self.bodies, self.w = given, bodies, Writer()
        self.wide = "float64" if given.dtype == "float64" else "float32"
        kind = given.dtype if given.distribution == "Uniform" else self.wide
        self.mantissa = MANTISSAS.get(kind, 0)

    def text(self) -> list[str]:
        w, group = self.w, self.given.group
        threads = w.register("ntid")
        first = w.set(f"mul i64 {w.register('ctaid')}, {threads}")
        first = w.set(f"add i64 {first}, {w.register('tid')}")
        groups = w.set(f"udiv i64 {w.set(f'add i64 %i0, {group - 1}')}, {group}")
        with w.loop(first, groups, w.set(f"mul i64 {w.register('nctaid')}, {threads}")) as (at, _, _):
            begin = w.set(f"mul i64 {at}, {group}")
            if self.given.distribution == "TruncatedNormal":
                self.accepted(at, begin)
            else:
                for k, number in enumerate(self.numbers(self.words(at))):
                    self.write(w.set(f"add i64 {begin}, {k}"), number)
        head = [f"define ptx_kernel void @{ENTRY}({parameters(1, INTS)}) {{", "entry:"]
        return [*head, *w.lines, "  ret void", "}"]

    def words(self, offset: str) -> list[str]:
        """The four words of a counter."""
        w = self.w
        low = w.set(f"add i64 %i2, {offset}")
        carry = w.set(f"zext i1 {w.set(f'icmp ult i64 {low}, {offset}')} to i64")
        high = w.set(f"add i64 %i3, {carry}")
        a, b, c, d = (*self.halves(low), *self.halves(high))
        keys = list(self.halves("%i1"))
        for number in range(ROUNDS):
            if number:
                keys = [w.set(f"add i32 {key}, {step}") for key, step in zip(keys, KEY_STEPS, strict=True)]
            one, other = (
                w.set(f"mul i64 {w.set(f'zext i32 {word} to i64')}, {factor}")
                for word, factor in zip((a, c), MULTIPLIERS, strict=True)
            )
            (one_low, one_high), (other_low, other_high) = self.halves(one), self.halves(other)
            a, b = w.set(f"xor i32 {w.set(f'xor i32 {other_high}, {b}')}, {keys[0]}"), other_low
            c, d = w.set(f"xor i32 {w.set(f'xor i32 {one_high}, {d}')}, {keys[1]}"), one_low
        return [a, b, c, d]

    def halves(self, value: str) -> tuple[str, str]:
        """The lower and the upper 32 bits."""
        w = self.w
        upper = w.set(f"lshr i64 {value}, 32")
        return w.set(f"trunc i64 {value} to i32"), w.set(f"trunc i64 {upper} to i32")

    def numbers(self, words: list[str]) -> list[str]:
        """The numbers that words give: integers, or floats as vectors of one lane in the dtype that is computed in."""
        w, given = self.w, self.given
        if given.distribution in ("UniformInt", "FullInt"):
            whole = words if given.group == 4 else self.joined(words, swapped=False)
            return whole if given.distribution == "FullInt" else [self.in_range(each) for each in whole]
        bits = words if given.group == 4 else self.joined(words, swapped=True)
        word = "i64" if given.group == 2 else "i32"
        kind = "uint64" if given.group == 2 else "uint32"
        masked = [w.set(f"and {word} {each}, {(1 << self.mantissa) - 1}") for each in bits]
        uniform = [self.call("uniform", (kind, w.lane(kind, each))) for each in masked]
        if given.distribution == "Uniform":
            return uniform
        found = []
        for x, v in zip(uniform[0::2], uniform[1::2], strict=True):
            found += [self.call(f"normal_{each}", (self.wide, x), (self.wide, v)) for each in ("sin", "cos")]
        return found

    def joined(self, words: list[str], swapped: bool) -> list[str]:
        """Pairs of words as 64 bits; swapped: the first of a pair is the upper half."""
        w, found = self.w, []
        for pair in (words[:2], words[2:]):
            lower, upper = reversed(pair) if swapped else pair
            high = w.set(f"shl i64 {w.set(f'zext i32 {upper} to i64')}, 32")
            found.append(w.set(f"or i64 {high}, {w.set(f'zext i32 {lower} to i64')}"))
        return found

    def in_range(self, value: str) -> str:
        """An integer of the range, by a remainder."""
        w = self.w
        if self.given.group == 2:
            return w.set(f"add i64 {w.set(f'urem i64 {value}, %i5')}, %i4")
        low, span = (w.set(f"trunc i64 {each} to i32") for each in ("%i4", "%i5"))
        return w.set(f"add i32 {w.set(f'urem i32 {value}, {span}')}, {low}")

    def call(self, name: str, *arguments: tuple[str, str]) -> str:
        return self.w.apply(name, self.bodies[name], *arguments)

    def write(self, index: str, number: str) -> None:
        """Store a number, if the output has that element."""
        w, dtype = self.w, self.given.dtype
        with w.when(w.set(f"icmp slt i64 {index}, %i0")):
            if self.bodies:
                number = self.call("narrow", (self.wide, number))
            else:
                number = w.lane(dtype, number)
            w.store(dtype, number, w.at("%a0", w.set(f"mul i64 {index}, {ITEM_SIZES[dtype]}")))

    def accepted(self, at: str, begin: str) -> None:
        """Draw a group of truncated normal numbers: of one counter after the other those within the bound."""
        w, group = self.w, self.given.group
        first = w.set(f"mul i64 {at}, {group * COUNTERS_PER_NUMBER}")
        before, attempt, done = w.block, w.label("attempt"), w.label("complete")
        w.do(f"br label %{attempt}")
        w.begin(attempt)
        place = len(w.lines)
        step, filled = w.set("phi"), w.set("phi")
        count = filled
        kind = LLVM_TYPES[self.wide]
        for number in self.numbers(self.words(w.set(f"add i64 {first}, {step}"))):
            scalar = w.set(f"extractelement <1 x {kind}> {number}, i32 0")
            below = w.set(f"fcmp olt {kind} {scalar}, {BOUND}")
            inside = w.set(f"and i1 {below}, {w.set(f'fcmp ogt {kind} {scalar}, {-BOUND}')}")
            has_room = w.set(f"icmp slt i64 {count}, {group}")
            with w.when(w.set(f"and i1 {inside}, {has_room}")):
                self.write(w.set(f"add i64 {begin}, {count}"), number)
            count = w.set(f"add i64 {count}, {w.set(f'zext i1 {inside} to i64')}")
        following = w.set(f"add i64 {step}, 1")
        is_full = w.set(f"icmp sge i64 {count}, {group}")
        last = w.block
        w.do(f"br i1 {is_full}, label %{done}, label %{attempt}")
        w.lines[place] = f"  {step} = phi i64 [ 0, %{before} ], [ {following}, %{last} ]"
        w.lines[place + 1] = f"  {filled} = phi i64 [ 0, %{before} ], [ {count}, %{last} ]"
        w.begin(done)
