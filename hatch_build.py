"""The build hook: compiles the usual kernels for the machine at hand, into `aioexec/devices/jit/packs`.

With AIOEXEC_PACKS=all, for every class of processors of this machine's architecture: that is for wheels that others install.
If the kernels cannot be compiled, the build warns, and the package compiles them when they are first used.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKS = os.path.join("aioexec", "devices", "jit", "packs")


class KernelPackHook(BuildHookInterface[Any]):
    """Adds the packs to a wheel, which is then one for this platform."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        sys.path.insert(0, self.root)
        try:
            written = self._write_packs()
        except Exception as error:  # a package without packs works
            self.app.display_warning(
                f"kernels are not compiled ahead of time, but when they are first used: {type(error).__name__}: {error}"
            )
            return
        finally:
            sys.path.remove(self.root)
        if written:
            name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{name}"
            build_data["artifacts"] += [os.path.join(PACKS, f"{processor}.pack") for processor in written]

    def _write_packs(self) -> list[str]:
        """Write the packs that are missing; return the classes of processors that have one."""
        from aioexec.devices.jit.cache import ObjectCache, default_directory
        from aioexec.devices.jit.pack_builder import write_pack
        from aioexec.devices.jit.target import PROCESSOR_CLASSES, host_class

        machine = platform.machine()
        if os.environ.get("AIOEXEC_PACKS") == "all":
            chosen = list(PROCESSOR_CLASSES.get(machine, {}))
        else:
            here = host_class()
            chosen = [] if here is None else [here]
        if not chosen:
            self.app.display_warning(
                f"no class of processors fits this {machine}: kernels are compiled when used"
            )
        for processor in chosen:
            self.app.display_info(f"compiling kernels for {processor}")
            failures = write_pack(processor, ObjectCache(default_directory()), self._show)
            for kernel, reason in failures.items():
                self.app.display_warning(f"not compiled: {kernel}: {reason}")
        return chosen

    def _show(self, done: int, count: int) -> None:
        if done % 100 == 0 or done == count:
            self.app.display_info(f"{done} of {count} kernels")
