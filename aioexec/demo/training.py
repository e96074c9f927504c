"""The demo in one event loop: training of a network, a server of its predictions, and a client of that server.

A monitored session trains the network: it saves a checkpoint every few seconds and at the end, from which the next run
continues; and it writes events for TensorBoard beside the checkpoints.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.data_classes import dataclass
from aioexec.demo import network
from aioexec.demo.digits import Digits, Examples
from aioexec.demo.network import Network
from aioexec.demo.progress import Outcome, Prediction, Progress
from aioexec.observability.loop_lag import LoopLagProbe
from aioexec.saved_model.signature import Signature
from aioexec.serving import PredictionClient, Server, serve
from aioexec.train.off_loop import off_loop

Work = Coroutine[Any, Any, None]

Watch = Callable[[Progress], Work]
"""Shows progress until it is cancelled."""

_MODEL = "digits"
_PAUSE_SECONDS = 0.01
"""Seconds between predictions: without a pause a client in the same loop would take half of its time."""

_NATIVE_SECONDS = 3.0
"""Seconds of training with native code, to measure its speed, if compilation took long."""

_ANSWER_SECONDS = 120.0
"""Seconds that the first prediction may wait for the compiler, if nothing may run before compilation (jit "eager")."""

_SAVE_SECONDS = 3.0
_SUMMARY_SECONDS = 0.5
_COUNT_STEPS = 1000  # steps between two log lines of the rate


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the command line: training takes `seconds`, or up to `most_seconds` until success.

    Attributes:
        folder: of checkpoints and events; training continues from its latest checkpoint.
    """

    seconds: float
    most_seconds: float
    batch_size: int
    seed: int
    folder: str


async def run(settings: Settings, digits: Digits, watch: Watch, stop: asyncio.Event | None = None) -> Outcome:
    """Train, serve and predict concurrently, until the time is over or `stop` is set."""
    net = await off_loop(network.build, settings.seed)  # the ops it uses are imported meanwhile
    served = _Served(net)
    stopping = _Stopping(stop or asyncio.Event())
    with net.graph.as_default():
        monitored = ax.train.MonitoredTrainingSession(
            checkpoint_dir=settings.folder,
            hooks=[stopping, served],
            save_checkpoint_secs=_SAVE_SECONDS,
            save_summaries_secs=_SUMMARY_SECONDS,
            log_step_count_steps=_COUNT_STEPS,
        )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(ax.summary.FileWriterCache.clear)
        session = await stack.enter_async_context(monitored)
        client = await stack.enter_async_context(PredictionClient(served.url, timeout=_ANSWER_SECONDS))
        probe = await stack.enter_async_context(LoopLagProbe())
        began_at = await session.run_step_fn(lambda step_context: step_context.session.run(net.global_step))
        progress = Progress(settings.seconds, probe, served.url, began_at=int(began_at))
        await _run_concurrently(
            _train(session, net, digits, settings, progress),
            _predict_repeatedly(client, digits.test, settings.seed, progress),
            watch(progress),
        )
        seconds, latest = progress.seconds, progress.steps_per_second()
        prediction = await _ask(client, digits.test, 0)
    return Outcome(
        accuracy=progress.accuracy,
        began_at=progress.began_at,
        steps=progress.steps,
        seconds=seconds,
        latest_steps_per_second=latest,
        lag=probe.result(),
        native_share=progress.native_share,
        answered=progress.answered,
        prediction=prediction,
        predict_url=served.url,
        folder=settings.folder,
    )


class _Served(ax.train.SessionRunHook):
    """Serves the model of the training session, from its creation until training ends.

    State: `url` is its address; `_open` closes the server.
    """

    def __init__(self, net: Network) -> None:
        self.url = ""
        self._net = net
        self._open = AsyncExitStack()

    async def after_create_session(self, session: ax.Session, coord: ax.train.Coordinator) -> None:
        await self._open.aclose()  # the server of a session that was lost
        net = self._net
        outputs = {"classes": net.classes, "probabilities": net.probabilities}
        model = Signature("serving_default", {"images": net.images}, outputs, session)
        server: Server = await self._open.enter_async_context(serve({_MODEL: model}))
        self.url = server.predict_url(_MODEL)

    async def end(self, session: ax.Session) -> None:
        await self._open.aclose()

    async def on_error(self, session: ax.Session, error: BaseException) -> None:
        await self._open.aclose()


class _Stopping(ax.train.SessionRunHook):
    """Ends training after the step in which a stop is requested."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def after_run(
        self, run_context: ax.train.SessionRunContext, run_values: ax.train.SessionRunValues
    ) -> None:
        if self._stop.is_set():
            run_context.request_stop()


async def _run_concurrently(training: Work, *companions: Work) -> None:
    """Run all concurrently, and cancel the others when the training is done; the first error ends all."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(companion) for companion in companions]
        await training
        for task in tasks:
            task.cancel()


async def _train(
    session: ax.train.MonitoredSession, net: Network, digits: Digits, settings: Settings, progress: Progress
) -> None:
    random = np.random.default_rng([settings.seed, progress.began_at])
    while _should_continue(settings, progress) and not session.should_stop():
        for batch in digits.train.batches(settings.batch_size, random):
            _, loss = await session.run([net.train, net.loss], _feeds(net, batch))
            progress.stepped(float(loss))
            if session.should_stop():
                break
        await session.run_step_fn(lambda step_context: _test(step_context.session, net, digits, progress))


async def _test(session: ax.Session, net: Network, digits: Digits, progress: Progress) -> None:
    """Record the present accuracy, in runs that do not call hooks."""
    feeds = _feeds(net, digits.test)
    accuracy = await session.run(net.accuracy, feeds)
    share = await session.native_share(
        [net.train, net.loss, net.step], feeds
    )  # the fetches of a step with hooks
    progress.epoch_ended(float(accuracy), share)


def _should_continue(settings: Settings, progress: Progress) -> bool:
    limit = settings.most_seconds
    if progress.is_success:
        limit = min(limit, max(settings.seconds, progress.native_from + _NATIVE_SECONDS))
    return progress.seconds < limit


async def _predict_repeatedly(
    client: PredictionClient, examples: Examples, seed: int, progress: Progress
) -> None:
    random = np.random.default_rng(seed)
    while True:
        progress.predicted(await _ask(client, examples, int(random.integers(len(examples)))))
        await asyncio.sleep(_PAUSE_SECONDS)


async def _ask(client: PredictionClient, examples: Examples, index: int) -> Prediction:
    image = examples.images[index]
    [answer] = await client.predict([image.tolist()])
    predicted = answer["classes"]
    return Prediction(image, int(examples.labels[index]), predicted, answer["probabilities"][predicted])


def _feeds(net: Network, examples: Examples) -> dict[ax.Tensor, object]:
    return {net.images: examples.images, net.labels: examples.labels}
