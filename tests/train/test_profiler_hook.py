"""ProfilerHook: the steps it traces, and the files it writes."""

import json
import os
from pathlib import Path

import pytest

from aioexec import train
from aioexec.errors import GraphValueError, OpError
from tests.train.hooked import Model, events_in, folder as folder, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")


def trace_in(folder):
    return json.loads(Path(folder, "timeline-2.json").read_text())


def timelines(folder):
    return sorted(each for each in os.listdir(folder) if each.endswith(".json"))


async def test_a_profiler_wants_one_interval(folder):
    for secs, steps in ((None, None), (1, 1)):
        with pytest.raises(GraphValueError, match="every_secs"):
            train.ProfilerHook(steps, secs, folder)


async def test_a_step_is_traced_each_so_many_steps_but_not_the_first(model: Model, folder):
    await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder)], 5)

    assert timelines(folder) == ["timeline-2.json", "timeline-4.json"]


async def test_a_step_is_traced_each_so_many_seconds(model: Model, folder):
    await trained(model, [train.ProfilerHook(save_secs=4, output_dir=folder)], 6, seconds=2.0)

    assert timelines(folder) == ["timeline-3.json", "timeline-5.json"]


async def test_a_timeline_shows_the_nodes_of_the_step(model: Model, folder):
    await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder)], 2)

    trace = trace_in(folder)
    assert "AssignAdd" in {event["name"] for event in trace["traceEvents"]}


async def test_a_timeline_may_show_memory(model: Model, folder):
    await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder, show_memory=True)], 2)

    trace = trace_in(folder)
    assert {event["ph"] for event in trace["traceEvents"]} >= {"C"}


async def test_the_event_file_has_the_metadata_of_the_steps(model: Model, folder):
    await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder)], 5)

    events = await events_in(folder)
    tags = [each.tagged_run_metadata.tag for each in events if each.HasField("tagged_run_metadata")]
    assert tags == ["step_2", "step_4"]


async def test_other_steps_are_not_traced(model: Model, folder):
    traced = []

    class Look(train.SessionRunHook):
        def after_run(self, run_context, run_values):
            traced.append(bool(run_values.run_metadata.step_stats.dev_stats))

    await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder), Look()], 4)

    assert traced == [False, True, False, True]


async def test_a_timeline_that_cannot_be_written_is_logged(model: Model, folder):
    os.mkdir(f"{folder}/timeline-2.json")

    with pytest.raises(OpError, match=r"timeline-2\.json"):
        await trained(model, [train.ProfilerHook(save_steps=2, output_dir=folder)], 2)
