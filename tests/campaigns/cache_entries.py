"""Loads mutants of entries of the cache of compiled kernels, and reads the symbols of mutants of object files.

    python -m tests.campaigns.cache_entries [--first SEED] [--count N] [--limit SECONDS]

A changed entry is never loaded: neither with other bytes, nor as another kind of file. A damaged object file is refused before
anything is linked. Nothing of it is executed here.
"""

from __future__ import annotations

import logging
import os
import tempfile
from functools import cache, partial
from pathlib import Path
from random import Random

from aioexec.devices.jit.cache import HEADER, SUFFIX, DamagedEntryError, ObjectCache, decode, encode
from aioexec.devices.jit.llvm import templates
from aioexec.devices.jit.objects import ObjectCode, ObjectRefusedError, check_symbols
from aioexec.devices.jit.target import IrCompiler, host
from aioexec.graph.kernels.kernel import ElementwiseKernel
from tests.campaigns import campaign, mutants

KEY = "ab" * 32


def case(seed: int) -> str | None:
    """Load one mutant."""
    logging.getLogger("aioexec").setLevel(logging.CRITICAL)  # it warns of each damaged entry
    random = Random(seed)
    code = random.choice(_objects())
    if random.random() < 0.4:
        image = mutants.mutant(random, [code.image])
        changed = ObjectCode(code.symbol, image)
        return mutants.bounded(lambda: check_symbols(changed, frozenset()), (ObjectRefusedError,), len(image))
    written = encode(KEY, code)
    if random.random() < 0.02:
        return _load_other_kind(random, written)
    content = mutants.mutant(random, [written[: HEADER.size + 100]]) + written[HEADER.size + 100 :]
    wrong = mutants.bounded(partial(decode, KEY, content), (DamagedEntryError,), len(content))
    return wrong or _load(content, content == written)


def _load(content: bytes, is_whole: bool) -> str | None:
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        path = Path(folder, KEY + SUFFIX)
        path.write_bytes(content)
        path.chmod(0o600)
        loaded: list[ObjectCode | None] = []
        cached = ObjectCache(folder)
        wrong = mutants.bounded(lambda: loaded.append(cached.load(KEY)), (), len(content))
        if wrong is None and (loaded[0] is not None) != is_whole:
            return (
                "an entry that was changed is loaded" if loaded[0] else "an entry that is whole is not loaded"
            )
        return wrong


def _load_other_kind(random: Random, written: bytes) -> str | None:
    """Where the entry should be there is a pipe, a folder, a link, a file of 1 TiB or one that others may write."""
    with tempfile.TemporaryDirectory(dir=mutants.memory_folder()) as folder:
        path, other = Path(folder, KEY + SUFFIX), Path(folder, "other")
        other.write_bytes(written)
        match random.randrange(5):
            case 0:
                os.mkfifo(path, 0o600)
            case 1:
                path.mkdir(0o700)
            case 2:
                path.symlink_to(other)
            case 3:
                path.write_bytes(written)
                os.truncate(path, 1 << 40)
            case _:
                path.write_bytes(written)
                path.chmod(0o622)
        loaded: list[ObjectCode | None] = []
        wrong = mutants.bounded(lambda: loaded.append(ObjectCache(folder).load(KEY)), (), len(written))
        return wrong or ("what is no entry is loaded" if any(loaded) else None)


@cache
def _objects() -> list[ObjectCode]:
    """Two objects that were compiled here."""
    compiler = IrCompiler(host())
    return [
        compiler.compile_ir("k", templates.emit(_kernel(body), "k")) for body in ("y = x * 2", "y = exp(x)")
    ]


def _kernel(body: str) -> ElementwiseKernel:
    return ElementwiseKernel(body, (("x", "float32"),), (("y", "float32"),), "vv")


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
