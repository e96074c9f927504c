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


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line sets."""

    epochs: int
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
            progress = Progress(settings.epochs, probe, url=server.predict_url)
            await _while_training(
                _train(session, net, digits, settings, progress),
                _ask_again_and_again(client, digits.test, settings.seed, progress),
                watch(progress),
            )
            seconds = progress.seconds
        return Outcome(
            accuracy=progress.accuracy,
            steps=progress.steps,
            seconds=seconds,
            lag=probe.result(),
            native_share=await _native_share(session, net, digits, settings),
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
    for _ in range(settings.epochs):
        for batch in digits.train.batches(settings.batch_size, random):
            _, loss = await session.run([net.train, net.loss], _feeds(net, batch))
            progress.stepped(float(loss))
        progress.epoch_ended(float(await session.run(net.accuracy, _feeds(net, digits.test))))


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


async def _native_share(session: ax.Session, net: Network, digits: Digits, settings: Settings) -> float:
    batch = Examples(digits.train.images[: settings.batch_size], digits.train.labels[: settings.batch_size])
    return await session.native_share([net.train, net.loss], _feeds(net, batch))


def _feeds(net: Network, examples: Examples) -> dict[ax.Tensor, object]:
    return {net.images: examples.images, net.labels: examples.labels}
