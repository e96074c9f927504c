"""`aioexec warm`: compiles kernels into the cache before they are needed, such as in the build of a container image."""

from __future__ import annotations

import argparse

from rich.progress import Progress

from aioexec.devices.jit import usual_kernels
from aioexec.devices.jit.cache import ObjectCache, default_directory
from aioexec.devices.jit.library import library
from aioexec.devices.jit.pack import installed_pack
from aioexec.devices.jit.pack_builder import Builder, source_of
from aioexec.devices.jit.target import host, host_class, target_of_class
from aioexec.inspection import stepping
from aioexec.inspection.stepping import Stepping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    stepping.add_arguments(parser, graph_required=False)


def run(arguments: argparse.Namespace) -> int:
    """Compile the kernels of a step, or, without a graph, the usual ones; return the exit status."""
    if arguments.graph is None:
        return _compile_usual()

    async def step(opened: Stepping) -> None:
        await opened.step()

    status = stepping.run(arguments, step)
    counts = library().statistics()
    print(
        f"kernels: {counts.shipped} came with the package, {counts.cached} were in the cache, "
        f"{counts.compiled} compiled, {counts.failed} failed"
    )
    return status


def _compile_usual() -> int:
    """Compile the usual kernels that did not come with the package."""
    target, shipped = host(), installed_pack()
    kernels = usual_kernels.read()
    if shipped is not None:
        name = host_class()
        assert name is not None, "there is no pack for other processors"
        keys = target_of_class(name)
        kernels = [kernel for kernel in kernels if source_of(kernel, keys).key not in shipped.places]
    cache = ObjectCache(default_directory())
    with Progress() as progress:
        task = progress.add_task("kernels", total=len(kernels))
        builder = Builder(target, cache, lambda done, count: progress.update(task, completed=done))
        failures = builder.build(kernels).failures
    for kernel, reason in failures.items():
        print(f"not compiled: {kernel}: {reason}")
    print(
        f"{len(kernels) - len(failures)} usual kernels are in {cache.directory}, the others came with the package"
    )
    return 1 if failures else 0
