"""The training stack on an opaque device: monitored sessions with the stock hooks, checkpoints, recovery from a lost device."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.testing.opaque_device import OpaqueDevice, OpaqueDeviceFactory
from aioexec.train.hooks.file_writer_cache import FileWriterCache

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(16, 4)).astype(np.float32)
Y = (X @ [1.0, -2.0, 0.5, 3.0] + 0.25).astype(np.float32)


class Model:
    """Linear regression by Adam; on the current default graph."""

    def __init__(self, use_resource: bool) -> None:
        self.global_step = ax.train.get_or_create_global_step()
        self.x, self.y = ax.placeholder(ax.float32, [None, 4]), ax.placeholder(ax.float32, [None])
        weights = ax.get_variable("w", [4, 1], initializer=ax.zeros_initializer(), use_resource=use_resource)
        bias = ax.get_variable("b", [], initializer=ax.zeros_initializer(), use_resource=use_resource)
        error = ax.squeeze(ax.matmul(self.x, weights), [1]) + bias - self.y
        self.loss = ax.reduce_mean(ax.square(error), name="loss")
        ax.summary.scalar("loss", self.loss)
        self.step = ax.train.AdamOptimizer(0.1).minimize(self.loss, global_step=self.global_step)


async def train(folder: Path | None, last_step: int, use_resource: bool, device: str = "") -> list[float]:
    """The losses until the last step, from the newest checkpoint on."""
    losses: list[float] = []
    with ax.Graph().as_default(), ax.device(device):
        model = Model(use_resource)
        with ax.device(""):
            hooks: list[Any] = [
                ax.train.StopAtStepHook(last_step=last_step),
                ax.train.LoggingTensorHook([model.loss], every_n_iter=3),
                ax.train.NanTensorHook(model.loss),
            ]
            session = ax.train.MonitoredTrainingSession(
                checkpoint_dir=None if folder is None else str(folder),
                hooks=hooks,
                save_checkpoint_steps=4,
                save_summaries_steps=2,
                log_step_count_steps=5,
                config=ax.ConfigProto(allow_soft_placement=True),
            )
            async with session as monitored:
                while not monitored.should_stop():
                    loss, _ = await monitored.run([model.loss, model.step], {model.x: X, model.y: Y})
                    losses.append(float(loss))
    await FileWriterCache.clear()
    return losses


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("use_resource", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_a_monitored_session_trains_and_goes_on_from_its_checkpoint(
    opaque: OpaqueDeviceFactory, tmp_path: Path, use_resource: bool, caplog: pytest.LogCaptureFixture
):
    expected = await train(None, 12, use_resource, "/device:CPU:0")
    caplog.set_level(logging.INFO)

    losses = await train(tmp_path, 6, use_resource)
    assert opaque.made[0].launches > 6 * 5
    losses += await train(tmp_path, 12, use_resource)

    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] < losses[0] / 2
    assert "loss" in caplog.text
    written = names_in(tmp_path)
    assert {"model.ckpt-6.index", "model.ckpt-12.index"} <= written
    assert any(name.startswith("events") for name in written)


async def test_a_monitored_session_goes_on_after_its_device_was_lost(
    opaque: OpaqueDeviceFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The session made anew has another device, and the values of the newest checkpoint."""
    expected = await train(None, 12, True, "/device:CPU:0")
    given: list[OpaqueDevice] = []
    launch = OpaqueDevice.launch

    def counted(device: OpaqueDevice, *arguments: Any) -> Any:
        if device not in given:
            given.append(device)
            device.fails_from = 150 if len(given) == 1 else None
        return launch(device, *arguments)

    monkeypatch.setattr(OpaqueDevice, "launch", counted)
    losses = await train(tmp_path, 12, True)

    assert len(given) == 2
    assert given[0].lost is not None
    assert len(losses) >= 12
    np.testing.assert_allclose(losses[-3:], expected[-3:], rtol=1e-5)
