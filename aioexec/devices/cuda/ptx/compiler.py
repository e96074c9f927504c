"""LLVM IR for NVIDIA GPUs to PTX, the assembly text that the driver translates for the GPU at hand.

LLVM does it all, so neither a GPU nor NVIDIA's compiler is needed. It takes tens of milliseconds without the interpreter lock:
`compile_ptx` is called on planning threads and those of devices, never on an event loop.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from aioexec.devices.jit.cache import ObjectCache, default_directory, sha256
from aioexec.devices.jit.objects import ObjectCode
from aioexec.devices.jit.target import IrError, llvm, versions

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
HEADER = f'target datalayout = "{LAYOUT}"\ntarget triple = "{TRIPLE}"\n'
"""The first lines of every module."""

PROCESSOR = "sm_75"
"""The oldest GPUs that code is made for. A driver translates PTX for later ones too."""

PTX_VERSION = 1
"""Raise it when the same IR would become other PTX."""


@functools.cache
def _cache() -> ObjectCache:
    return ObjectCache(default_directory())


def compile_ptx(entry: str, text: str, processor: str = PROCESSOR) -> str:
    """The PTX of a module that defines the kernel `entry`; from the disk if it was compiled before.

    Raises:
        IrError: LLVM refuses the text.
    """
    key = sha256(json.dumps(("ptx", PTX_VERSION, text, processor, versions())).encode("utf-8")).hex()
    found = _cache().load(key)
    if found is not None and found.symbol == entry:
        return found.image.decode("ascii")
    ptx = _emit(text, processor)
    _cache().store(key, ObjectCode(entry, ptx.encode("ascii")))
    return ptx


def _emit(text: str, processor: str) -> str:
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=3)
    context = binding.create_context()
    try:
        with binding.parse_assembly(text, context=context) as module:
            module.verify()
            optimise(binding, machine, module)
            return str(machine.emit_assembly(module))
    except RuntimeError as error:
        raise IrError(str(error).strip()) from error
    finally:
        context.close()


def optimise(binding: Any, machine: Any, module: Any) -> None:
    """Run LLVM's usual passes for a target."""
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    passes = binding.create_pass_builder(machine, options)
    pipeline = passes.getModulePassManager()
    pipeline.run(module, passes)
    pipeline.close()
    passes.close()
