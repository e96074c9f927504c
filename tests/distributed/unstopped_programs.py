"""Programs that never stop or close anything: `python -m tests.distributed.unstopped_programs NAME ROUNDS`."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import aioexec as ax


def _graph() -> ax.Graph:
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [], name="x")
        ax.add(x, 1.0, name="y")
        ax.FIFOQueue(1, ax.float32, name="queue").dequeue(name="never")
    return graph


async def _use(target: str) -> None:
    session = ax.Session(target, graph=_graph())
    assert await session.run("y:0", {"x:0": 2.0}) == 3.0


def cancelled_with_all_tasks(rounds: int) -> None:
    """The cancellation of all tasks by `asyncio.run`, many times in one loop; freed memory is reused and checked."""

    async def main() -> None:
        taken: list[bytearray] = []
        for number in range(rounds):
            server = ax.train.Server.create_local_server()
            await server.serve()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.wait(others)
            del server, others
            if number % 10 == 0:
                gc.collect()
            assert all(block.count(0xFF) == len(block) for block in taken)  # of the server before
            taken = [bytearray(b"\xff" * (16 * (k % 64) + 15)) for k in range(20_000)]

    asyncio.run(main())


def one_loop_after_another(rounds: int) -> None:
    """A server and a session for each loop, none stopped or closed."""

    async def main() -> None:
        await _use(ax.train.Server.create_local_server().target)

    for _ in range(rounds):
        asyncio.run(main())
        gc.collect()


def closed_under_them(rounds: int) -> None:
    """Loops that are closed without an end for their tasks."""

    async def main() -> None:
        server = ax.train.Server.create_local_server()
        await server.serve()
        await _use(server.target)

    for _ in range(rounds):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
        gc.collect()


def dropped_in_a_call(rounds: int) -> None:
    """Sessions of a server in another thread's loop, dropped with a call under way when their loop ends."""
    made: list[ax.train.Server] = []
    is_made, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        made.append(ax.train.Server.create_local_server())
        await made[0].serve()
        is_made.set()
        await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    is_made.wait()
    target = made[0].target

    async def main() -> None:
        session = ax.Session(target, graph=_graph())
        assert await session.run("y:0", {"x:0": 2.0}) == 3.0
        step = asyncio.ensure_future(session.run("never:0"))
        await asyncio.wait([step], timeout=0)

    for _ in range(rounds):
        asyncio.run(main())
        gc.collect()
    is_over.set()
    thread.join()


def forked(rounds: int) -> None:
    """Child processes that are forked while a server serves, and end."""

    async def main() -> None:
        server = ax.train.Server.create_local_server()
        await server.serve()
        for _ in range(rounds):
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # since Python 3.12
                child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0  # noqa: ASYNC222  # it ends at once
            await _use(server.target)

    asyncio.run(main())


def saved(rounds: int) -> None:
    """A variable is saved by one session of a server and restored by the next."""

    async def main(folder: str, number: int) -> None:
        with ax.Graph().as_default() as graph:
            v = ax.Variable(float(number), name="v")
            saver = ax.train.Saver()
            init = ax.global_variables_initializer()
        target = ax.train.Server.create_local_server().target
        session = ax.Session(target, graph=graph)
        await session.run(init)
        path = await saver.save(session, str(Path(folder) / "model"), global_step=number)
        again = ax.Session(target, graph=graph)
        await saver.restore(again, path)
        assert await again.run(v) == number

    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            asyncio.run(main(folder, number))


PROGRAMS: dict[str, Callable[[int], None]] = {
    program.__name__: program
    for program in (
        cancelled_with_all_tasks,
        one_loop_after_another,
        closed_under_them,
        dropped_in_a_call,
        forked,
        saved,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](int(sys.argv[2]))
