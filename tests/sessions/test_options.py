"""ConfigProto and RunOptions in plain fields."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aioexec.errors import GraphTypeError, GraphValueError, UnimplementedError
from aioexec.formats.protos import ConfigProto, GraphDef, OptimizerOptions, RewriterConfig, RunOptions
from aioexec.sessions.options import (
    GraphOptions,
    SessionMetadata,
    SessionOptions,
    ThreadPoolOptions,
)
from aioexec.sessions.run_options import DEFAULT, StepOptions


def test_everything_honoured_is_read():
    config = ConfigProto(
        device_count={"CPU": 2},
        device_filters=["/job:a"],
        intra_op_parallelism_threads=3,
        inter_op_parallelism_threads=-1,
        use_per_session_threads=True,
        allow_soft_placement=True,
        log_device_placement=True,
        operation_timeout_in_ms=5,
        isolate_session_state=True,
    )
    config.session_inter_op_thread_pool.add(num_threads=2, global_name="shared")
    config.session_inter_op_thread_pool.add()
    config.graph_options.optimizer_options.opt_level = OptimizerOptions.L0
    config.graph_options.optimizer_options.do_constant_folding = True
    config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    config.graph_options.place_pruned_graph = True
    config.graph_options.build_cost_model = 7
    config.graph_options.build_cost_model_after = 8
    config.experimental.session_metadata.name = "m"
    config.experimental.session_metadata.version = 9
    config.experimental.disable_output_partition_graphs = True
    config.experimental.optimize_for_static_graph = True
    config.experimental.use_numa_affinity = True
    config.aioexec.jit = "eager"
    config.aioexec.max_steps_in_flight = 10
    config.aioexec.refuse_when_busy = True
    config.aioexec.arena_bytes = 11

    options = SessionOptions.from_config("t", config)

    assert options == SessionOptions(
        target="t",
        config=config,
        jit="eager",
        device_count={"CPU": 2},
        device_filters=("/job:a",),
        intra_op_threads=3,
        inter_op_threads=-1,
        session_inter_op_thread_pool=(ThreadPoolOptions(2, "shared"), ThreadPoolOptions(0, "")),
        use_per_session_threads=True,
        allow_soft_placement=True,
        log_device_placement=True,
        operation_timeout_in_ms=5,
        isolate_session_state=True,
        graph_options=GraphOptions(-1, False, True, False, False, True, 7, 8),
        session_metadata=SessionMetadata("m", 9),
        disable_output_partition_graphs=True,
        optimize_for_static_graph=True,
        use_numa_affinity=True,
        max_steps_in_flight=10,
        refuse_when_busy=True,
        arena_bytes=11,
    )


def test_no_config_is_an_empty_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AIOEXEC_JIT")
    without, empty = SessionOptions.from_config("", None), SessionOptions.from_config("", ConfigProto())

    assert without == SessionOptions()
    assert empty == SessionOptions(config=ConfigProto())


def test_the_jit_mode_comes_from_the_config_then_the_environment(monkeypatch: pytest.MonkeyPatch):
    config = ConfigProto()
    config.aioexec.jit = "off"
    monkeypatch.setenv("AIOEXEC_JIT", "eager")

    assert SessionOptions.from_config("", config).jit == "off"
    assert SessionOptions.from_config("", None).jit == "eager"
    monkeypatch.setenv("AIOEXEC_JIT", "always")
    with pytest.raises(GraphValueError, match="always"):
        SessionOptions.from_config("", None)


@pytest.mark.slow
def test_a_session_without_a_config_loads_no_messages():
    code = (
        "import sys, aioexec; aioexec.Session();"
        "print(sorted({'google.protobuf', 'aioexec.formats.protos'} & set(sys.modules)))"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("field", ["max_steps_in_flight", "arena_bytes"])
def test_a_negative_bound_is_refused(field: str):
    config = ConfigProto()
    setattr(config.aioexec, field, -1)

    with pytest.raises(GraphValueError, match=field):
        SessionOptions.from_config("", config)


def test_what_is_no_config_is_refused():
    with pytest.raises(GraphTypeError, match="ConfigProto"):
        SessionOptions.from_config("", GraphDef())
    with pytest.raises(GraphTypeError, match="ConfigProto"):
        SessionOptions.from_config("", {"device_count": 1})
    no_text: Any = b""
    with pytest.raises(GraphTypeError, match="target"):
        SessionOptions.from_config(no_text, None)


def test_run_options_are_read():
    proto = RunOptions(
        trace_level=RunOptions.FULL_TRACE,
        timeout_in_ms=3,
        inter_op_thread_pool=-1,
        output_partition_graphs=True,
        report_tensor_allocations_upon_oom=True,
    )

    options = StepOptions.from_proto(proto)

    assert options == StepOptions(proto, 3, 3, -1, True, True)
    assert options.is_traced
    assert not DEFAULT.is_traced
    assert StepOptions.from_proto(None) is DEFAULT


def test_watching_tensors_is_refused_not_forgotten():
    proto = RunOptions()
    proto.debug_options.debug_tensor_watch_opts.add(node_name="a")

    with pytest.raises(UnimplementedError, match="debug_options"):
        StepOptions.from_proto(proto)


def test_what_are_no_run_options_are_refused():
    with pytest.raises(GraphTypeError, match="RunOptions"):
        StepOptions.from_proto(ConfigProto())
