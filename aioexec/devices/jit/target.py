"""The processor we compile for, and LLVM IR to object code.

llvmlite is imported when the first kernel is compiled, never before. Its calls release the interpreter's
lock, so this may run in a thread beside an event loop.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.devices.jit.objects import ObjectCode


class IrError(Exception):
    """LLVM does not accept a text."""


@functools.cache
def llvm() -> Any:
    """llvmlite's binding, with the native target set up."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@dataclass(frozen=True, slots=True)
class Target:
    """A processor.

    Attributes:
        cpu, features: LLVM's name of it and its feature string; "" leaves the choice to the compiler.
        versions: of everything else that decides what code comes out.
    """

    cpu: str
    features: str
    versions: tuple[str, ...]


NO_PREFERENCE = "-prefer-256-bit"
"""Enables vectors of 512 bits where a processor has them: LLVM's models of some x86 processors prefer 256."""


def versions() -> tuple[str, ...]:
    """The versions of what compiles."""
    from importlib import metadata  # it brings along a mail parser

    python = ".".join(platform.python_version_tuple()[:2])
    return (metadata.version("llvmlite"), metadata.version("numba"), python)


@functools.cache
def host() -> Target:
    """This machine."""
    features = llvm().get_host_cpu_features().flatten()
    if platform.machine().lower() in ("x86_64", "amd64"):
        features += f",{NO_PREFERENCE}"
    return Target(llvm().get_host_cpu_name(), features, versions())


V3 = "sse3 ssse3 sse4.1 sse4.2 popcnt cx16 sahf avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave crc32"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
NEON = "fp-armv8 neon"
WIDEST = "avx512f"
"""The feature without which vectors have at most 256 bits."""

PROCESSOR_CLASSES: Mapping[str, Mapping[str, str]] = {
    "x86_64": {"x86-64-v4": V4, "x86-64-v3": V3},
    "aarch64": {"aarch64": NEON},
}
"""The classes of processors that kernels are compiled ahead of time for, by machine, the most capable first, each with LLVM's
names of the features it requires. Those of x86 are the levels of the System V ABI, chapter 3.1.1
(https://gitlab.com/x86-psABIs/x86-64-ABI)."""

GENERIC_NAMES = {"aarch64": "generic"}
"""LLVM's names of processors, for the classes that are named differently."""


def processor_class(machine: str, features: str) -> str | None:
    """The most capable class that a processor belongs to; None if it belongs to none.

    A processor with vectors of 512 bits that lacks other features of their class belongs to none: constants are packed for
    the width of its vectors, and kernels of another class would read them as if they had other columns.

    Args:
        machine: the name that `platform.machine` gives it.
        features: LLVM's feature string.
    """
    enabled = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    for name, required in PROCESSOR_CLASSES.get(machine, {}).items():
        if enabled.issuperset(required.split()) and (WIDEST in required) == (WIDEST in enabled):
            return name
    return None


@functools.cache
def host_class() -> str | None:
    """The most capable class that this machine belongs to."""
    return processor_class(platform.machine(), host().features)


def target_of_class(name: str) -> Target:
    """The target that code for all processors of a class is compiled for.

    Raises:
        KeyError: there is no such class.
    """
    required = next(classes[name] for classes in PROCESSOR_CLASSES.values() if name in classes)
    features = [f"+{feature}" for feature in required.split()]
    if name.startswith("x86"):
        features.append(NO_PREFERENCE)
    return Target(GENERIC_NAMES.get(name, name), ",".join(features), versions())


PASSES = (
    "always_inliner",
    "sroa",
    "instruction_combine",
    "simplify_cfg",
    "new_gvn",
    "global_dead_code_eliminate",
)
"""Templates write their loops and vectors themselves: O2 gives the same code in twice the time (17 against 9 ms for exp)."""

OPTIMISATION = ", ".join((*PASSES, "pic", "small"))
"""What `compile_ir` does: part of the cache key."""


class IrCompiler:
    """Compiles LLVM IR text for one processor."""

    def __init__(self, target: Target) -> None:
        binding = llvm()
        triple = binding.Target.from_triple(binding.get_process_triple())
        self._machine = triple.create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
        )

    def compile_ir(self, symbol: str, text: str) -> ObjectCode:
        """Compile a module that defines `symbol`.

        Raises:
            IrError: LLVM refuses the text.
        """
        binding = llvm()
        context = binding.create_context()
        try:
            module = binding.parse_assembly(text, context=context)
            with module:
                module.verify()
                passes = binding.create_pass_builder(self._machine, binding.create_pipeline_tuning_options())
                pipeline = binding.create_new_module_pass_manager()
                for name in PASSES:
                    getattr(pipeline, f"add_{name}_pass")()
                pipeline.run(module, passes)
                pipeline.close()
                passes.close()
                return ObjectCode(symbol, self._machine.emit_object(module))
        except RuntimeError as error:
            raise IrError(str(error).strip()) from error
        finally:
            context.close()
