"""A soak of the model server: clients of every protocol, while versions of two models come and go.

A tenth of the requests is cancelled under way, some steps fail, and some versions are damaged. Each quarter of a soak has a
server of its own, whose end waits for the requests under way, so that what the server has run can be compared with what its
clients have received.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import numpy as np

from aioexec.errors import INTERNAL, INVALID_ARGUMENT, OK
from aioexec.serving import serve
from aioexec.serving.application_keys import ADMISSION
from aioexec.serving.models.model_config import Batching, ModelConfig
from aioexec.serving.models.run_listeners import Run
from aioexec.serving.models.version_policy import All
from aioexec.serving.repository import Repository
from aioexec.serving.server import Server
from tests.serving.soak.calls import PROTOCOLS, STREAMED, Answer, Connections, Outcome, Request, connected
from tests.serving.soak.checks import FAULTY, REFUSED, Sent, check, reason_of
from tests.serving.soak.folders import ModelFolder
from tests.serving.soak.loading import Loading
from tests.serving.soak.versions import LINEAR, ROOTS, WIDTH, Array
from tests.soak.kinds import CANCELLED
from tests.soak.rounds import attempt

_FAULT_SHARE = 0.02  # of the steps
_NEGATIVE_SHARE = 0.05  # of the requests to `roots`
_MOST_ROWS = 10  # more than the batches of one of the models
_POLL_SECONDS = 0.02
_GRACE_SECONDS = 60.0
_PASSES = 64  # of the loop, before a request is cancelled


class ServerSoak:
    """A repository of two models, with their folders, and its clients.

    Attributes:
        requests, cancelled: how many have ended, and how many of these were cancelled.
        outcomes: how many were answered by each protocol, or have received an error, by its reason.
        versions: which versions of each model have answered.
        runs: the runs of models by the canonical code of their outcome.
    """

    def __init__(self, repository: Repository, folders: list[ModelFolder], loading: Loading, seed: int):
        self.requests = self.cancelled = 0
        self.outcomes: Counter[str] = Counter()
        self.versions: dict[str, set[int]] = {folder.name: set() for folder in folders}
        self.runs: Counter[int] = Counter()
        self.loading = loading
        self._repository = repository
        self._folders = folders
        self._seed = seed
        self._milestones: dict[int, asyncio.Event] = {}

    async def run(self, requests: int, clients: int, changes: int) -> None:
        """Serve so many more requests, during so many changes of each folder, with a server of its own."""
        first, cancelled = self.requests, self.cancelled
        self.runs.clear()
        self.outcomes.clear()
        self._repository.listeners.append(self)
        async with (
            serve(self._repository, grpc_port=0, grace=_GRACE_SECONDS) as server,
            asyncio.TaskGroup() as group,
        ):
            for folder in self._folders:
                group.create_task(self._change(folder, first, requests, changes))
            for number in range(clients):
                random = Random(f"{self._seed}/{first}/{number}")
                group.create_task(self._ask(server, requests // clients, random))
        self._repository.listeners.remove(self)
        self._check_runs(self.cancelled - cancelled)
        assert (server.app[ADMISSION].requests, server.app[ADMISSION].bytes) == (0, 0)

    def on_run(self, run: Run) -> None:
        """Count a run (a method of listeners)."""
        self.runs[run.code] += 1

    def on_step(self, model: str, version: int, rows: int) -> None:
        """A step has been run (a method of listeners)."""

    def on_unload(self, model: str, version: int) -> None:
        """A version is closed (a method of listeners)."""

    def _check_runs(self, cancelled: int) -> None:
        """Each answer is of one run; the others are of clients that have gone."""
        answered = sum(self.outcomes[name] for name in PROTOCOLS)
        faults, refused = self.outcomes[FAULTY], self.outcomes[REFUSED]
        for code, received in ((OK, answered), (INTERNAL, faults), (INVALID_ARGUMENT, refused)):
            assert received <= self.runs[code] <= received + cancelled * STREAMED, (code, received, self.runs)

    async def _change(self, folder: ModelFolder, first: int, requests: int, changes: int) -> None:
        for number in range(changes):
            milestone = first + number * requests // changes
            if self.requests < milestone:
                await self._milestones.setdefault(milestone, asyncio.Event()).wait()
            await folder.change()

    async def _ask(self, server: Server, requests: int, random: Random) -> None:
        async with connected(server) as to:
            for number in range(requests):
                await self._one(to, random, number)
                self.requests += 1
                milestone = self._milestones.pop(self.requests, None)
                if milestone is not None:
                    milestone.set()

    async def _one(self, to: Connections, random: Random, number: int) -> None:
        folder = random.choice(self._folders)
        sent = Sent.now(_request(folder, random, number), folder, self.loading)
        protocol = random.choice([*PROTOCOLS])
        outcomes = await attempt(random, PROTOCOLS[protocol](to, sent.asked), _PASSES)
        if outcomes is CANCELLED:
            self.cancelled += 1
            return
        for outcome in outcomes:
            check(sent, outcome, self.loading)
            self._count(protocol, sent, outcome)

    def _count(self, protocol: str, sent: Sent, outcome: Outcome) -> None:
        if isinstance(outcome, Answer):
            self.outcomes[protocol] += 1
            if outcome.version is not None:
                self.versions[sent.folder.name].add(outcome.version)
        else:
            self.outcomes[reason_of(outcome)] += 1


def _request(folder: ModelFolder, random: Random, number: int) -> Request:
    rows = random.randint(1, _MOST_ROWS)
    signature = LINEAR if random.random() < 0.7 else ROOTS
    is_negative = signature == ROOTS and random.random() < _NEGATIVE_SHARE
    x = _rows(random, rows) * (-1 if is_negative else 1)
    version = None
    known = sorted(folder.good | folder.damaged)[-6:]
    if known and random.random() < 0.4:
        version = random.choice(known)
    return Request(folder.name, version, signature, x, f"{random.getrandbits(64):x}/{number}")


def _rows(random: Random, rows: int) -> Array:
    """Rows with sums between 0 and 10⁵ that hardly occur twice."""
    return np.array([[random.randrange(30_000) for _ in range(WIDTH)] for _ in range(rows)], np.float64)


@asynccontextmanager
async def server_soak(parent: Path, seed: int) -> AsyncIterator[ServerSoak]:
    """A soak whose models have one version each; at the end all of them must be closed."""
    random = Random(seed)
    loading = Loading(random, _FAULT_SHARE)
    newest = ModelFolder(parent / "newest", loading, random, serves_all=False)
    every = ModelFolder(parent / "every", loading, random, serves_all=True)
    configs = [
        ModelConfig(newest.name, str(newest.path), batching=Batching(16, 0.002, 1000, (4, 16))),
        ModelConfig(every.name, str(every.path), All(), batching=Batching(6, 0.0, 1000)),
    ]
    async with Repository.watching(configs, loading, poll_seconds=_POLL_SECONDS) as repository:
        await asyncio.gather(newest.add(), every.add())
        yield ServerSoak(repository, [newest, every], loading, seed)
    assert loading.open_models == 0
