"""`aioexec warm`: compiles kernels into the cache before they are needed, such as in the build of a container image."""

from __future__ import annotations

import argparse

from aioexec.command_line.arguments import add_examples, add_json
from aioexec.command_line.output import print_json
from aioexec.command_line.progress import progress
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
    add_json(parser)
    add_examples(
        parser,
        """
in the build of a container image: all usual kernels
AIOEXEC_CACHE_DIR=/opt/kernels aioexec warm
those of one model, for the batch sizes it is used with
aioexec warm frozen.pb --feed images=1,224,224,3
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compile the kernels of a step, or, without a graph, the usual ones; return the exit status."""
    if arguments.graph is None:
        return _compile_usual(as_json=arguments.json)

    async def step(opened: Stepping) -> None:
        await opened.step()

    status = stepping.run(arguments, step)
    counts = library().statistics()
    if arguments.json:
        names = ("shipped", "cached", "compiled", "failed")
        print_json({name: getattr(counts, name) for name in names})
        return status
    print(
        f"kernels: {counts.shipped} came with the package, {counts.cached} were in the cache, "
        f"{counts.compiled} compiled, {counts.failed} failed"
    )
    return status


def _compile_usual(*, as_json: bool) -> int:
    """Compile the usual kernels that did not come with the package."""
    target, shipped = host(), installed_pack()
    kernels = usual_kernels.read()
    if shipped is not None:
        name = host_class()
        assert name is not None, "there is no pack for other processors"
        keys = target_of_class(name)
        kernels = [kernel for kernel in kernels if source_of(kernel, keys).key not in shipped.places]
    cache = ObjectCache(default_directory())
    with progress("compiling kernels", len(kernels)) as advance:
        failures = Builder(target, cache, lambda done, _: advance(done)).build(kernels).failures
    if as_json:
        reasons = {str(kernel): str(reason) for kernel, reason in failures.items()}
        print_json({"directory": cache.directory, "kernels": len(kernels), "failures": reasons})
        return 1 if failures else 0
    for kernel, reason in failures.items():
        print(f"not compiled: {kernel}: {reason}")
    print(
        f"{len(kernels) - len(failures)} usual kernels are in {cache.directory}, the others came with the package"
    )
    return 1 if failures else 0
