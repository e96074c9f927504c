"""New processes and the kernel cache: for any state of the folder, results are bitwise the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, hashlib, json, resource, sys
import numpy as np
import aioexec as ax
from aioexec.devices.jit import pack
from aioexec.devices.jit.library import library

pack.DIRECTORY = "/nonexistent"  # kernels that come with the package need no cache
if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write of a byte to a file fails

with ax.Graph().as_default() as graph:
    x = ax.placeholder(ax.float32, [None, 40])
    w = ax.Variable(np.linspace(-2, 2, 40, dtype=np.float32))
    loss = ax.reduce_mean(ax.tanh(x * w + 0.25))  # a template and a loop, of either compiler
    with ax.control_dependencies([loss]):
        train = ax.assign_sub(w, 0.5 * w)
    init = ax.global_variables_initializer()


async def main():
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    digest = hashlib.sha256()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(init)
        for rows in (7, 64):
            fed = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
            value, _ = await session.run([loss, train.op], {x: fed})
            digest.update(value.tobytes())
        digest.update((await session.run(w)).tobytes())
        share = await session.native_share([loss, train.op], {x: fed})
    statistics = library().statistics()
    print(json.dumps([digest.hexdigest(), share, statistics.compiled, statistics.cached, statistics.failed]))


asyncio.run(main())
"""

pytestmark = pytest.mark.slow  # each test starts processes that compile


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env={**os.environ, "AIOEXEC_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[str, int, int]:
    """The digest of a process's results, and how many kernels it compiled and found in the cache."""
    out, complaints = process.communicate()
    assert process.returncode == 0, complaints
    digest, share, compiled, cached, failed = json.loads(out)
    assert (share, failed) == (1.0, 0)
    return digest, compiled, cached


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> tuple[Path, str]:
    """A folder that a process has filled, and the digest of its results."""
    folder = tmp_path_factory.mktemp("kernels")
    folder.chmod(0o700)
    digest, compiled, cached = end(start(folder))
    assert len(list(folder.iterdir())) == compiled > cached
    return folder, digest


def copy_of(filled: tuple[Path, str], folder: Path) -> dict[Path, bytes]:
    """A copy of the entries in another folder, by path."""
    folder.mkdir(mode=0o700)
    copied = {folder / entry.name: entry.read_bytes() for entry in filled[0].iterdir()}
    for path, content in copied.items():
        path.write_bytes(content)
        path.chmod(0o600)
    return copied


def test_a_second_process_compiles_nothing_and_computes_the_same(filled):
    folder, expected = filled

    digest, compiled, cached = end(start(folder))

    assert (digest, compiled, cached > 1) == (expected, 0, True)


@pytest.mark.parametrize("damage", ["flipped bits", "truncated"])
def test_damaged_entries_are_compiled_again(filled, tmp_path, damage):
    copied = copy_of(filled, tmp_path / "kernels")
    for path, content in copied.items():
        broken = bytes([*content[:-100], content[-100] ^ 4, *content[-99:]])
        path.write_bytes(broken if damage == "flipped bits" else content[: len(content) // 2])

    digest, compiled, _ = end(start(tmp_path / "kernels"))

    assert (digest, compiled) == (filled[1], len(copied))
    assert {path: path.read_bytes()[:8] for path in copied} == dict.fromkeys(copied, b"aioexec\x00")


@pytest.mark.parametrize("folder", ["/proc/aioexec", "/dev/null/kernels"])
def test_a_folder_that_cannot_be_written_is_no_folder(filled, folder):
    digest, compiled, _ = end(start(Path(folder)))

    assert (digest, compiled > 1) == (filled[1], True)


def test_on_a_full_disk_nothing_is_kept_and_nothing_left(filled, tmp_path):
    digest, compiled, _ = end(start(tmp_path / "kernels", "full"))

    assert (digest, compiled > 1) == (filled[1], True)
    assert list((tmp_path / "kernels").iterdir()) == []


def test_processes_that_fill_one_folder_at_once_compute_the_same(filled, tmp_path):
    processes = [start(tmp_path / "kernels") for _ in range(3)]

    digests = {end(process)[0] for process in processes}
    _, compiled, _ = end(start(tmp_path / "kernels"))

    assert digests == {filled[1]}
    assert compiled == 0
    assert not [path for path in (tmp_path / "kernels").iterdir() if path.name.startswith(".")]
