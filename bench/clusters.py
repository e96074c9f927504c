"""Server processes of both engines: the same tasks, one process each, on this machine."""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

_TENSORFLOW = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
cluster = tf.train.ClusterSpec({"worker": sys.argv[2:]})
server = tf.distribute.Server(cluster, job_name="worker", task_index=int(sys.argv[1]))
print(server.target, flush=True)
server.join()
"""
_START_SECONDS = 60.0


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine without a listener."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    finally:
        for each in sockets:
            each.close()


async def servers(engine: str, tasks: int, stack: AsyncExitStack) -> list[str]:
    """Start a job "worker" of so many tasks, and return their targets; they end with the stack.

    Args:
        engine: "aioexec" or "tensorflow".
    """
    addresses = free_addresses(tasks)
    commands = [_command(engine, index, addresses) for index in range(tasks)]
    processes = await asyncio.gather(*(_started(command, stack) for command in commands))
    for process in processes:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
        if not line:
            raise RuntimeError(f"a server of {engine} has ended before it served")
    return [f"grpc://{address}" for address in addresses]


def _command(engine: str, index: int, addresses: Sequence[str]) -> list[str]:
    if engine == "tensorflow":
        return ["-c", _TENSORFLOW, str(index), *addresses]
    cluster = f"worker={','.join(addresses)}"
    return ["-m", "aioexec.cli", "server", "--cluster", cluster, "--job", "worker", "--task", str(index)]


async def _started(command: Sequence[str], stack: AsyncExitStack) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(os.environ),
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    return process
