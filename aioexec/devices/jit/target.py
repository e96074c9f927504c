"""The processor we compile for, and LLVM IR to object code.

llvmlite is imported when the first kernel is compiled, never before. Its calls release the interpreter's
lock, so this may run in a thread beside an event loop.
"""

from __future__ import annotations

import functools
import platform
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


@functools.cache
def host() -> Target:
    """This machine, with 512-bit vectors enabled where it has them: LLVM's models of some x86 processors prefer 256."""
    from importlib import metadata  # it brings along a mail parser

    features = llvm().get_host_cpu_features().flatten()
    if platform.machine().lower() in ("x86_64", "amd64"):
        features += ",-prefer-256-bit"
    versions = (
        metadata.version("llvmlite"),
        metadata.version("numba"),
        ".".join(platform.python_version_tuple()[:2]),
    )
    return Target(llvm().get_host_cpu_name(), features, versions)


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
