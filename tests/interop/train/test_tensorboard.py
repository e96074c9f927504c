"""TensorBoard's own loader reads all contents of our files: scalars, histograms, images, audio, texts, the graph, its runs."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aioexec as ax
from aioexec.formats.protos import GraphDef, RunMetadata, SessionLog

pytestmark = [
    pytest.mark.interop,
    pytest.mark.may_block,
    pytest.mark.allow_leaks("TensorBoard keeps the files it follows open"),
]

STEPS = 6


@pytest.fixture(scope="module")
def accumulators() -> Any:
    return pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


@pytest_asyncio.fixture
async def logdir(tmp_path: Path) -> Path:
    """A run with one of each kind."""
    with ax.Graph().as_default() as graph:
        step = ax.placeholder(ax.float32, [], name="step")
        with ax.name_scope("train"):
            ax.summary.scalar("loss", 1 / (1 + step))
            ax.summary.histogram("weights", ax.constant(np.linspace(-1, 1, 50, dtype=np.float32)) * step)
        ax.summary.image("picture", picture())
        ax.summary.audio("tone", ax.constant(np.sin(np.arange(400, dtype=np.float32)).reshape(1, 400)), 8000)
        ax.summary.text("note", ax.constant(["**bold**", "plain"]))
        merged = ax.summary.merge_all()
        options = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE)
        async with ax.Session(graph=graph) as session, ax.summary.FileWriter(tmp_path, graph) as writer:
            writer.add_session_log(SessionLog(status=SessionLog.START), 0)
            for k in range(STEPS):
                metadata = RunMetadata()
                writer.add_summary(await session.run(merged, {step: k}, options, metadata), k)
                writer.add_run_metadata(metadata, f"step {k}", k)
    return tmp_path


def picture() -> Any:
    return np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)


@pytest_asyncio.fixture
async def loaded(accumulators: Any, logdir: Path) -> Any:
    accumulator = accumulators.EventAccumulator(
        str(logdir), size_guidance=dict.fromkeys(accumulators.DEFAULT_SIZE_GUIDANCE, 0)
    )
    return await asyncio.to_thread(accumulator.Reload)


async def test_it_lists_everything_that_was_written(loaded):
    assert loaded.Tags() == {
        "scalars": ["train/loss"],
        "histograms": ["train/weights"],
        "distributions": ["train/weights"],
        "images": ["picture/image/0", "picture/image/1"],
        "audio": ["tone/audio/0"],
        "tensors": ["note"],
        "graph": True,
        "meta_graph": True,
        "run_metadata": [f"step {k}" for k in range(STEPS)],
    }


async def test_it_reads_numbers_with_their_steps(loaded):
    read = [(event.step, event.value) for event in loaded.Scalars("train/loss")]

    assert read == [(k, pytest.approx(1 / (1 + k), rel=1e-6)) for k in range(STEPS)]


async def test_it_reads_histograms(loaded):
    last = loaded.Histograms("train/weights")[-1]
    histogram = last.histogram_value

    assert (last.step, histogram.num, histogram.min, histogram.max) == (STEPS - 1, 50, -5, 5)
    assert sum(histogram.bucket) == 50
    assert histogram.sum_squares == pytest.approx(np.sum((5 * np.linspace(-1, 1, 50)) ** 2), rel=1e-5)
    assert len(loaded.CompressedHistograms("train/weights")) == STEPS


async def test_it_reads_pictures(loaded):
    pillow = pytest.importorskip("PIL.Image")
    for k in range(2):
        last = loaded.Images(f"picture/image/{k}")[-1]

        assert (last.step, last.width, last.height) == (STEPS - 1, 5, 4)
        pixels = np.asarray(pillow.open(io.BytesIO(last.encoded_image_string)))
        np.testing.assert_array_equal(pixels, picture()[k])


async def test_it_reads_sounds(loaded):
    (last,) = loaded.Audio("tone/audio/0")[-1:]

    assert (last.step, last.sample_rate, last.content_type, last.length_frames) == (
        STEPS - 1,
        8000,
        "audio/wav",
        400,
    )


async def test_it_reads_texts(loaded):
    last = loaded.Tensors("note")[-1]

    assert list(last.tensor_proto.string_val) == [b"**bold**", b"plain"]
    assert loaded.SummaryMetadata("note").plugin_data.plugin_name == "text"


async def test_it_reads_the_graph_with_its_shapes(loaded):
    graph_def = GraphDef.FromString(loaded.Graph().SerializeToString())

    nodes = {node.name: node for node in graph_def.node}
    assert nodes["train/loss"].op == "ScalarSummary"
    assert not nodes["train/loss"].attr["_output_shapes"].list.shape[0].dim


async def test_it_reads_what_runs_say_of_themselves(loaded):
    stats = loaded.RunMetadata("step 3").step_stats

    ran = {node.node_name for device in stats.dev_stats for node in device.node_stats}
    assert "train/loss" in ran
    assert RunMetadata.FromString(loaded.RunMetadata("step 3").SerializeToString()).step_stats.dev_stats


async def test_its_server_finds_the_same_by_plugin(logdir):
    multiplexer = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")
    server = multiplexer.EventMultiplexer({"run": str(logdir)})
    await asyncio.to_thread(server.Reload)

    expected = {
        "scalars": ["train/loss"],
        "histograms": ["train/weights"],
        "images": ["picture/image/0", "picture/image/1"],
        "audio": ["tone/audio/0"],
        "text": ["note"],
        "graphs": ["__run_graph__"],
        "graph_tagged_run_metadata": [f"step {k}" for k in range(STEPS)],
    }
    assert {plugin: sorted(server.PluginRunToTagToContent(plugin)["run"]) for plugin in expected} == expected


async def test_a_session_log_of_a_restart_hides_the_steps_that_are_run_again(accumulators, tmp_path):
    for first in (0, 3):
        async with ax.summary.FileWriter(tmp_path) as writer:
            writer.add_session_log(SessionLog(status=SessionLog.START), first)
            for step in range(first, first + 5):
                value = ax.Summary.Value(tag="loss", simple_value=first)
                writer.add_summary(ax.Summary(value=[value]), step)

    loaded = await asyncio.to_thread(accumulators.EventAccumulator(str(tmp_path)).Reload)

    read = [(event.step, event.value) for event in loaded.Scalars("loss")]
    assert read == [*((step, 0) for step in range(3)), *((step, 3) for step in range(3, 8))]


async def test_it_follows_a_file_that_grows(accumulators, tmp_path):
    counts = []
    async with ax.summary.FileWriter(tmp_path) as writer:
        accumulator = accumulators.EventAccumulator(str(tmp_path))
        for step in range(3):
            writer.add_summary(ax.Summary(value=[ax.Summary.Value(tag="loss", simple_value=step)]), step)
            await writer.flush()
            await asyncio.to_thread(accumulator.Reload)
            counts.append(len(accumulator.Scalars("loss")))

    assert counts == [1, 2, 3]
