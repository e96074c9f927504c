"""Numba's code of the functions of a kernel, put together and compiled once, as the whole they become.

Left to itself numba optimises each function with everything it calls and makes it machine code, so the innermost of five would
be compiled five times: three quarters of the time a matrix product took. Here what a function becomes is only kept, until
`object_of` links and compiles the last of them. Like `loops.py`, which loads it, this file is for the compiler child and
imports nothing of aioexec.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target

SYMBOL = "aioexec_kernel"


class Fragment(JITCodeLibrary):
    """The code of a function, and which others it calls: neither linked nor optimised as a whole, nor to be called."""

    def finalize(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """There is no machine code."""
        return 0


def install() -> None:
    """Have numba keep what it compiles from now on as fragments."""
    generator = cpu_target.target_context.codegen()
    generator._library_class = Fragment
    generator.set_env = lambda name, environment: None  # would look for a variable in the machine code


def object_of(fragment: Any, symbol: str) -> bytes:
    """The object file of what `symbol`, a function of this fragment, does, named SYMBOL; all else in it is its own affair.

    Numba numbers the names of what it compiles. They are replaced, so that equal functions give equal files.
    """
    module = fragment._final_module
    for other in called(fragment):
        module.link_in(other._final_module, preserve=True)
    for number, value in enumerate((*module.functions, *module.global_variables)):
        if value.name == symbol:
            value.name = SYMBOL
        elif not value.is_declaration:
            value.linkage = "internal"
            value.name = f"{SYMBOL}.{number}"
    module.verify()
    fragment._optimize_final_module()
    image: bytes = fragment.codegen._tm.emit_object(module)
    return image


def called(fragment: Any) -> list[Any]:
    """The fragments it calls, directly or not."""
    found = list(dict.fromkeys(fragment._linking_libraries))
    for each in found:
        found += [other for other in dict.fromkeys(each._linking_libraries) if other not in found]
    return found
