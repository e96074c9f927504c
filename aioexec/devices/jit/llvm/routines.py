"""LLVM functions with branches and loops: what the expression language cannot say.

Each works on vectors, is internal to its module, and is written by the name of what it computes.
"""

from __future__ import annotations

from aioexec.devices.jit.llvm.ir import LLVM_TYPES

EXTERNAL_SYMBOLS = {
    name: f"declare {result} @{name}({arguments}) nounwind"
    for plain, count in (("sin", 1), ("cos", 1), ("tan", 1), ("fmod", 2), ("atan2", 2))
    for name, result in ((plain, "double"), (plain + "f", "float"))
    for arguments in (", ".join([result] * count),)
}
"""C functions a kernel may call, in rare lanes only, and their declarations."""

RARE_FUNCTIONS = EXTERNAL_SYMBOLS | {
    # An angle of the same sine, at most a quarter turn
    "less_turnsf": """\
define internal float @less_turnsf(float %x) nounwind {
  %wide = fpext float %x to double
  %sine = call double @sin(double %wide)
  %cosine = call double @cos(double %wide)
  %size = call double @llvm.fabs.f64(double %cosine)
  %angle = call double @atan2(double %sine, double %size)
  %y = fptrunc double %angle to float
  ret float %y
}
declare double @llvm.fabs.f64(double)""",
    "rsqrtf": """\
define internal float @rsqrtf(float %x) nounwind {
  %root = call float @llvm.sqrt.f32(float %x)
  %y = fdiv float 1.0, %root
  ret float %y
}
declare float @llvm.sqrt.f32(float)""",
}
"""What computes rare lanes: those, and what no C library has, or only a newer one."""


def rare_function(name: str) -> dict[str, str]:
    """A function for rare lanes, and those of the C library that it calls: text by symbol."""
    text = RARE_FUNCTIONS[name]
    called = {f"@{each}": declared for each, declared in EXTERNAL_SYMBOLS.items() if f" @{each}(" in text}
    return called | {f"@{name}": text}


def repair_function(function: str, count: int, lanes: int, item: str) -> str:
    """The LLVM functions behind `libm`: a test inlined everywhere, and a cold loop over lanes."""
    vector, mask = f"<{lanes} x {item}>", f"<{lanes} x i1>"
    parameters = [f"{vector} %x{k}" for k in range(count)] + [f"{vector} %y", f"{mask} %c"]
    signature = ", ".join(parameters)
    elements = "\n".join(f"  %in{k} = extractelement {vector} %x{k}, i32 %i" for k in range(count))
    arguments = ", ".join(f"{item} %in{k}" for k in range(count))
    return f"""\
define internal {vector} @repair.{function}.v{lanes}({signature}) alwaysinline nounwind {{
entry:
  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask} %c)
  br i1 %any, label %slow, label %done, !prof !1
slow:
  %repaired = call {vector} @lanes.{function}.v{lanes}({signature})
  br label %done
done:
  %result = phi {vector} [ %y, %entry ], [ %repaired, %slow ]
  ret {vector} %result
}}
define internal {vector} @lanes.{function}.v{lanes}({signature}) noinline cold nounwind {{
entry:
  br label %lane
lane:
  %i = phi i32 [ 0, %entry ], [ %next, %after ]
  %r = phi {vector} [ %y, %entry ], [ %merged, %after ]
  %wanted = extractelement {mask} %c, i32 %i
  br i1 %wanted, label %compute, label %after
compute:
{elements}
  %out = call {item} @{function}({arguments})
  %patched = insertelement {vector} %r, {item} %out, i32 %i
  br label %after
after:
  %merged = phi {vector} [ %r, %lane ], [ %patched, %compute ]
  %next = add i32 %i, 1
  %end = icmp eq i32 %next, {lanes}
  br i1 %end, label %done, label %lane, !llvm.loop !0
done:
  ret {vector} %merged
}}"""


def otherwise_function(
    symbol: str, function: str, lanes: int, item: str, word: str
) -> tuple[str, tuple[str, str]]:
    """The LLVM function behind `otherwise`, inlined everywhere; and the intrinsic it needs, with its declaration.

    The lanes of the bits are brought together half by half, down to what every processor has as a register or two.
    """
    vector, width, bits = f"<{lanes} x {item}>", lanes, "%bits"
    halving = []
    while width > 8:
        kind, half = f"<{width} x {word}>", width // 2
        for name, first in (("low", 0), ("high", half)):
            places = ", ".join(f"i32 {first + lane}" for lane in range(half))
            mask = f"<{half} x i32> <{places}>"
            halving.append(f"  %{name}{half} = shufflevector {kind} {bits}, {kind} poison, {mask}")
        halving.append(f"  %bits{half} = or <{half} x {word}> %low{half}, %high{half}")
        width, bits = half, f"%bits{half}"
    lines = "\n".join(halving)
    reduction = f"@llvm.vector.reduce.or.v{width}{word}"
    text = f"""\
define internal {vector} {symbol}({vector} %x, <{lanes} x {word}> %bits) alwaysinline nounwind {{
entry:
{lines}
  %some = call {word} {reduction}(<{width} x {word}> {bits})
  %any = icmp ne {word} %some, 0
  br i1 %any, label %other, label %done, !prof !1
other:
  %changed = call {vector} {function}({vector} %x)
  br label %done
done:
  %result = phi {vector} [ %x, %entry ], [ %changed, %other ]
  ret {vector} %result
}}"""
    return text, (reduction, f"declare {word} {reduction}(<{width} x {word}>)")


def any_lane(lanes: int) -> tuple[str, str]:
    """The intrinsic that tests whether any lane of a mask is set, and its declaration."""
    name = f"@llvm.vector.reduce.or.v{lanes}i1"
    return name, f"declare i1 {name}(<{lanes} x i1>)"


def power_function(dtype: str, lanes: int) -> str:
    """Integer power by squaring, until no lane has a bit of its exponent left; wraps around."""
    vector = f"<{lanes} x {LLVM_TYPES[dtype]}>"
    one = f"splat ({LLVM_TYPES[dtype]} 1)"
    return f"""\
define internal {vector} @power.{dtype}.v{lanes}({vector} %x, {vector} %y) nounwind {{
entry:
  br label %step
step:
  %r = phi {vector} [ {one}, %entry ], [ %r.next, %step ]
  %b = phi {vector} [ %x, %entry ], [ %b.next, %step ]
  %e = phi {vector} [ %y, %entry ], [ %e.next, %step ]
  %bit = and {vector} %e, {one}
  %odd = icmp ne {vector} %bit, zeroinitializer
  %times = mul {vector} %r, %b
  %r.next = select <{lanes} x i1> %odd, {vector} %times, {vector} %r
  %b.next = mul {vector} %b, %b
  %e.next = lshr {vector} %e, {one}
  %some = icmp ne {vector} %e.next, zeroinitializer
  %more = call i1 {any_lane(lanes)[0]}(<{lanes} x i1> %some)
  br i1 %more, label %step, label %done, !llvm.loop !0
done:
  ret {vector} %r.next
}}"""
