"""The demo's one event loop: it trains a network, serves predictions of it, and is the client that asks for them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.demo import network
from aioexec.demo.digits import Digits, Examples
from aioexec.demo.network import Network
from aioexec.demo.progress import Outcome, Prediction, Progress
from aioexec.observability.loop_lag import LoopLagProbe
from aioexec.serving import PredictionClient, serve

Work = Coroutine[Any, Any, None]

Watch = Callable[[Progress], Work]
"""Shows progress until it is cancelled."""

_MODEL = "digits"
_PAUSE_SECONDS = 0.01
"""Between predictions: a client in the same loop would otherwise take half of its time."""

_NATIVE_SECONDS = 3.0
"""Of training by native code, so that its speed is seen, where the compiler took long."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line sets: training takes `seconds`, or up to `most_seconds` if it is no success by then."""

    seconds: float
    most_seconds: float
    batch_size: int
    seed: int


async def run(settings: Settings, digits: Digits, watch: Watch) -> Outcome:
    """Train, serve and ask, all at once."""
    net = network.build(settings.seed)
    async with (
        ax.Session(graph=net.graph) as session,
        serve(
            session,
            {"images": net.images},
            {"classes": net.classes, "probabilities": net.probabilities},
            name=_MODEL,
        ) as server,
        PredictionClient(server.predict_url) as client,
    ):
        await session.run(net.initialize)
        async with LoopLagProbe() as probe:
            progress = Progress(settings.seconds, probe, server.predict_url)
            await _while_training(
                _train(session, net, digits, settings, progress),
                _ask_again_and_again(client, digits.test, settings.seed, progress),
                watch(progress),
            )
            seconds, latest = progress.seconds, progress.steps_per_second()
        return Outcome(
            accuracy=progress.accuracy,
            steps=progress.steps,
            seconds=seconds,
            latest_steps_per_second=latest,
            lag=probe.result(),
            native_share=progress.native_share,
            answered=progress.answered,
            prediction=await _ask(client, digits.test, 0),
            predict_url=server.predict_url,
        )


async def _while_training(training: Work, *companions: Work) -> None:
    """Run all of them, and stop the others when the training is done; an error of one ends all."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(companion) for companion in companions]
        await training
        for task in tasks:
            task.cancel()


async def _train(
    session: ax.Session, net: Network, digits: Digits, settings: Settings, progress: Progress
) -> None:
    random = np.random.default_rng(settings.seed)
    step = [net.train, net.loss]
    while _goes_on(settings, progress):
        for batch in digits.train.batches(settings.batch_size, random):
            feeds = _feeds(net, batch)
            _, loss = await session.run(step, feeds)
            progress.stepped(float(loss))
        accuracy = await session.run(net.accuracy, _feeds(net, digits.test))
        progress.epoch_ended(float(accuracy), await session.native_share(step, feeds))


def _goes_on(settings: Settings, progress: Progress) -> bool:
    limit = settings.most_seconds
    if progress.is_success:
        limit = min(limit, max(settings.seconds, progress.native_from + _NATIVE_SECONDS))
    return progress.seconds < limit


async def _ask_again_and_again(
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
