"""Products of matrices for GPUs, in tiles, and of what can be addressed like matrices: windows of images are rows.

    c[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]

Each of batch, m, n and k stands for one or more dimensions, with a stride in each operand that has them. So a transposed matrix
is a matrix with other strides; in a convolution m is (image, row, column), k is (row in the window, column in it, channel), and
the same step in the image belongs to two of them.

A block computes a tile of c. In each step its threads load a tile of a and one of b into shared memory, then each thread adds
to its own part of the tile of c, in registers. Neighbouring threads load what is contiguous: see `Layout`. 16-bit floats are
computed in float32. Tensor cores are not used.

The integer parameters: the sizes of batch, m, n and k; their dimensions; the strides in bytes of a (batch, m, k), of b (batch,
k, n) and of c (batch, m, n). Every size is less than 2^31. The grid: tiles in x, batches in y.
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.threads import module_text, parameters
from aioexec.devices.cuda.ptx.writer import BARRIER_DECLARATION, SHARED, Writer
from aioexec.devices.jit.llvm.expressions import Body, Module, translate
from aioexec.devices.jit.llvm.ir import FLOATS, ITEM_SIZES, LLVM_TYPES, MANGLED
from aioexec.graph.kernels.kernel import ElementwiseKernel

ENTRY = "aioexec_contraction"
HEAD = 4
"""The number of integer parameters before the dimensions."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of c that a block computes, and the terms of a step; each thread computes part_m x part_n elements."""

    m: int = 64
    n: int = 64
    k: int = 16
    part_m: int = 4
    part_n: int = 4

    @property
    def threads(self) -> int:
        return self.m * self.n // (self.part_m * self.part_n)


@dataclass(frozen=True, slots=True)
class Layout:
    """The numbers of dimensions, and along what a and b are contiguous: k, or else m and n."""

    batch: int
    m: int
    n: int
    k: int
    a_along_k: bool
    b_along_k: bool


@dataclass(frozen=True, slots=True)
class Types:
    """The dtypes of a, b and c, and the dtype in which the sums are computed."""

    a: str
    b: str
    c: str
    sum: str


def emit(types: Types, layout: Layout, tile: Tile) -> str:
    """Write the module that defines ENTRY."""
    module = Module(1)
    bodies = {
        name: translate(
            ElementwiseKernel(f"y = cast(x, {after!r})", (("x", before),), (("y", after),), ""), module
        )
        for name, before, after in (
            ("take_a", types.a, types.sum),
            ("take_b", types.b, types.sum),
            ("give_c", types.sum, types.c),
        )
    }
    kernel = _Kernel(types, layout, tile, bodies)
    kind = LLVM_TYPES[types.sum]
    fma = f"declare {kind} @llvm.fma.{MANGLED[kind]}({kind}, {kind}, {kind})" if types.sum in FLOATS else ""
    return module_text(
        [
            f"@tile_a = internal addrspace(3) global [{tile.m * tile.k} x {kind}] poison, align 16",
            f"@tile_b = internal addrspace(3) global [{tile.n * tile.k} x {kind}] poison, align 16",
            *kernel.text(),
            *(body.text.replace(f"{body.symbol}(", f"@{name}(") for name, body in bodies.items()),
            *module.functions.values(),
            *module.declarations.values(),
            fma,
            BARRIER_DECLARATION,
        ]
    )


class _Kernel:
    """The function under construction."""

    def __init__(self, types: Types, layout: Layout, tile: Tile, bodies: dict[str, Body]) -> None:
        self.types, self.layout, self.tile, self.bodies = types, layout, tile, bodies
        self.w = Writer()
        self.kind = LLVM_TYPES[types.sum]
        self.size = ITEM_SIZES[types.sum]
        counts = {"batch": layout.batch, "m": layout.m, "n": layout.n, "k": layout.k}
        next_ = HEAD
        self.dims: dict[str, list[str]] = {}
        for name, count in counts.items():
            self.dims[name] = [f"%i{next_ + d}" for d in range(count)]
            next_ += count
        self.strides: dict[tuple[str, str], list[str]] = {}
        for operand, names in (
            ("a", ("batch", "m", "k")),
            ("b", ("batch", "k", "n")),
            ("c", ("batch", "m", "n")),
        ):
            for name in names:
                self.strides[operand, name] = [f"%i{next_ + d}" for d in range(counts[name])]
                next_ += counts[name]
        self.ints = next_

    def text(self) -> list[str]:
        w, tile = self.w, self.tile
        self.tid = w.register("tid")
        block, batches = w.register("ctaid"), w.register("nctaid", "y")
        last = w.set(f"add i64 %i2, {tile.n - 1}")
        columns = w.set(f"udiv i64 {last}, {tile.n}")
        self.first_m = w.set(f"mul i64 {w.set(f'udiv i64 {block}, {columns}')}, {tile.m}")
        self.first_n = w.set(f"mul i64 {w.set(f'urem i64 {block}, {columns}')}, {tile.n}")
        across = tile.n // tile.part_n
        self.row, self.column = (w.set(f"{opcode} i64 {self.tid}, {across}") for opcode in ("udiv", "urem"))
        with w.loop(w.register("ctaid", "y"), "%i0", batches) as (batch, _, _):
            indices = w.indices(batch, self.dims["batch"])
            bases = [
                w.at(f"%a{k}", w.offset(indices, self.strides[name, "batch"])) for k, name in enumerate("abc")
            ]
            self.product(bases)
        return [
            f"define ptx_kernel void @{ENTRY}({parameters(3, self.ints)}) {{",
            "entry:",
            *w.lines,
            "  ret void",
            "}",
        ]

    def product(self, bases: list[str]) -> None:
        """A tile of c of one batch."""
        w, tile = self.w, self.tile
        zero = "0.0" if self.types.sum in FLOATS else "0"
        parts = tile.part_m * tile.part_n
        slots_a = self.slots("a", "m", tile.m, self.first_m, "%i1", self.layout.a_along_k, bases[0])
        slots_b = self.slots("b", "n", tile.n, self.first_n, "%i2", self.layout.b_along_k, bases[1])
        with w.loop("0", "%i3", str(tile.k), [(self.kind, zero)] * parts) as (step, sums, becomes):
            for slot in slots_a:
                self.load("a", step, slot)
            for slot in slots_b:
                self.load("b", step, slot)
            w.barrier()
            totals = list(sums)
            for k in range(tile.k):
                left = [
                    self.shared("a", k * tile.m + i * (tile.m // tile.part_m), self.row)
                    for i in range(tile.part_m)
                ]
                right = [
                    self.shared("b", k * tile.n + j * (tile.n // tile.part_n), self.column)
                    for j in range(tile.part_n)
                ]
                for i in range(tile.part_m):
                    for j in range(tile.part_n):
                        at = i * tile.part_n + j
                        totals[at] = self.multiply_add(left[i], right[j], totals[at])
            w.barrier()
            becomes.extend(totals)
        self.write(bases[2], sums)

    def slots(
        self, operand: str, side: str, width: int, first: str, end: str, along_k: bool, base: str
    ) -> list[tuple[str, str, str, str]]:
        """What a thread loads in each step: for each of its elements the place in the tile, the number of the term within the
        step, whether the row (or column) exists, and the address of its beginning."""
        w, tile = self.w, self.tile
        found = []
        for number in range(width * tile.k // tile.threads):
            element = w.set(f"add i64 {self.tid}, {number * tile.threads}")
            if along_k:
                line, term = w.set(f"udiv i64 {element}, {tile.k}"), w.set(f"urem i64 {element}, {tile.k}")
            else:
                term, line = w.set(f"udiv i64 {element}, {width}"), w.set(f"urem i64 {element}, {width}")
            place = w.set(f"add i64 {w.set(f'mul i64 {term}, {width}')}, {line}")
            number_ = w.set(f"add i64 {first}, {line}")
            exists = w.set(f"icmp slt i64 {number_}, {end}")
            address = w.at(base, w.offset(w.indices(number_, self.dims[side]), self.strides[operand, side]))
            found.append((place, term, exists, address))
        return found

    def load(self, operand: str, step: str, slot: tuple[str, str, str, str]) -> None:
        """Load one element into a tile in shared memory; 0 outside the matrix."""
        w = self.w
        place, term, exists, address = slot
        k = w.set(f"add i64 {step}, {term}")
        inside = w.set(f"and i1 {exists}, {w.set(f'icmp slt i64 {k}, %i3')}")
        target = w.at(f"@tile_{operand}", w.set(f"mul i64 {place}, {self.size}"), SHARED)
        dtype = self.types.a if operand == "a" else self.types.b
        w.store(
            self.types.sum,
            f"splat ({self.kind} {'0.0' if self.types.sum in FLOATS else '0'})",
            target,
            SHARED,
        )
        with w.when(inside):
            source = w.at(address, w.offset(w.indices(k, self.dims["k"]), self.strides[operand, "k"]))
            name = f"take_{operand}"
            value = w.apply(name, self.bodies[name], (dtype, w.load(dtype, source)))
            w.store(self.types.sum, value, target, SHARED)

    def shared(self, operand: str, place: int, line: str) -> str:
        """An element of a tile."""
        w = self.w
        base = self.w.at(f"@tile_{operand}", w.set(f"mul i64 {line}, {self.size}"), SHARED)
        return w.set(f"load {self.kind}, {SHARED} {w.at(base, str(place * self.size), SHARED)}")

    def multiply_add(self, x: str, y: str, total: str) -> str:
        w, kind = self.w, self.kind
        if self.types.sum in FLOATS:
            return w.set(f"call {kind} @llvm.fma.{MANGLED[kind]}({kind} {x}, {kind} {y}, {kind} {total})")
        return w.set(f"add {kind} {w.set(f'mul {kind} {x}, {y}')}, {total}")

    def write(self, base: str, sums: list[str]) -> None:
        """Store a thread's part of the tile."""
        w, tile = self.w, self.tile
        for i in range(tile.part_m):
            line = w.set(f"add i64 {self.row}, {i * (tile.m // tile.part_m)}")
            m = w.set(f"add i64 {self.first_m}, {line}")
            has_m = w.set(f"icmp slt i64 {m}, %i1")
            start = w.at(base, w.offset(w.indices(m, self.dims["m"]), self.strides["c", "m"]))
            for j in range(tile.part_n):
                line = w.set(f"add i64 {self.column}, {j * (tile.n // tile.part_n)}")
                n = w.set(f"add i64 {self.first_n}, {line}")
                inside = w.set(f"and i1 {has_m}, {w.set(f'icmp slt i64 {n}, %i2')}")
                with w.when(inside):
                    place = w.at(start, w.offset(w.indices(n, self.dims["n"]), self.strides["c", "n"]))
                    value = w.lane(self.types.sum, sums[i * tile.part_n + j])
                    result = w.apply("give_c", self.bodies["give_c"], (self.types.sum, value))
                    w.store(self.types.c, result, place)
