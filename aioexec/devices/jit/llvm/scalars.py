"""Elementary functions of the expression language as LLVM functions of one number, for the bodies of loop kernels.

The C library's functions are calls, which keep a loop scalar. Ours are straight-line code: inlined into a loop they become
vector code with it, and the loop and the elementwise kernels compute the same bits.
"""

from __future__ import annotations

import functools
import re

from aioexec.devices.jit.llvm import math
from aioexec.devices.jit.llvm.expressions import Module
from aioexec.devices.jit.llvm.ir import LLVM_TYPES

FUNCTIONS = frozenset({"exp", "expm1", "log", "log1p", "tanh"})
DTYPES = ("float32", "float64")

TO_SCALAR = (
    (re.compile(r"<1 x (\w+)>"), r"\1"),
    (re.compile(r"splat \(\w+ ([^()]*)\)"), r"\1"),
    (re.compile(r"\.v1(\w+)"), r".\1"),
)
"""The language has only vectors; LLVM's loop vectoriser takes only scalars. These turn one lane into a scalar."""


@functools.cache
def scalar_module(name: str, dtype: str) -> str:
    """LLVM IR that defines `@"aioexec.<name>.<dtype>"`, a function of one argument."""
    module = Module(1)
    definition, dtypes = math.resolve(name, [dtype])
    inner, kind = module.instance(definition, dtypes), LLVM_TYPES[dtype]
    wrapper = (
        f'define {kind} @"aioexec.{name}.{dtype}"({kind} %x) alwaysinline nounwind {{\n'
        f"  %y = call {kind} {inner}({kind} %x)\n  ret {kind} %y\n}}\n"
    )
    text = "\n".join([*module.declarations.values(), *module.functions.values(), wrapper])
    for pattern, replacement in TO_SCALAR:
        text = pattern.sub(replacement, text)
    return text
