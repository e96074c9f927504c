"""CoroutineThread: a task with the interface of a thread."""

import asyncio

import aioexec as ax
from aioexec.porting.threads import CoroutineThread


async def test_it_runs_its_target_when_it_is_started():
    done = []

    async def work(value, twice=False):
        await asyncio.sleep(0)
        done.append(value * (2 if twice else 1))

    first = CoroutineThread(target=work, args=(1,))
    second = CoroutineThread(target=lambda: work(5, twice=True), name="second")
    plain = CoroutineThread(target=done.append, args=[7], daemon=True)
    for thread in (first, second, plain):
        assert not thread.is_alive()
        thread.start()
    await first.join()
    await second.join()
    await plain.join()

    assert sorted(done) == [1, 7, 10]
    assert (second.name, plain.daemon, first.daemon) == ("second", True, False)


async def test_a_coordinator_joins_it():
    coord = ax.train.Coordinator()

    async def work():
        while not coord.should_stop():
            await asyncio.sleep(0)

    thread = CoroutineThread(target=work)
    thread.setDaemon(True)
    thread.start()
    coord.request_stop()
    await coord.join([thread])

    assert not thread.is_alive()


async def test_a_subclass_overrides_run():
    done = []

    class Worker(CoroutineThread):
        def __init__(self, value):
            super().__init__()
            self.value = value

        async def run(self):
            await asyncio.sleep(0)
            done.append(self.value)

    worker = Worker(3)
    worker.start()
    await worker.join()

    assert done == [3]
