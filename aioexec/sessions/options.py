"""Session options: ConfigProto as plain fields, so that a session without one does not load protobuf.

`SessionOptions` also implements the protocol of options from which devices are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, cast, get_args

from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.execution.engine import JitMode
from aioexec.graph.kernels.panels import Storage

_JIT_MODES = ("off", "background", "eager")

_MOST_THREADS = 4096
"""Most threads of one pool, regardless of the configuration: memory is allocated for each before it starts."""


@dataclass(frozen=True, slots=True)
class ThreadPoolOptions:
    """An inter-op pool of the session, of `num_threads` threads (0: as many as `inter_op_threads`); one with a `global_name` is
    shared by all sessions of the process that use the name."""

    num_threads: int
    global_name: str = ""


@dataclass(frozen=True, slots=True)
class SessionMetadata:
    """The name and version of a session; no two open sessions of a process have the same."""

    name: str
    version: int


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How graphs are planned.

    Attributes:
        opt_level: 0 (L1, the default) or -1 (L0: only the passes enabled by name).
        do_common_subexpression_elimination, do_constant_folding: passes enabled by name.
        remapping: passes that change the rounding of results run, as they do by default: RewriterConfig turns neither remapping
            nor all rewrites off.
        aggressive_remapping: so do those with larger errors, such as Winograd's convolution: `remapping` is AGGRESSIVE there.
        place_pruned_graph: place only the nodes that a signature needs, instead of the whole graph.
        build_cost_model: make a cost model every so many steps; 0: never.
        build_cost_model_after: steps to skip before the first.
    """

    opt_level: int = 0
    do_common_subexpression_elimination: bool = False
    do_constant_folding: bool = False
    remapping: bool = True
    aggressive_remapping: bool = False
    place_pruned_graph: bool = False
    build_cost_model: int = 0
    build_cost_model_after: int = 0


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session.

    Attributes:
        target: "" for a session in this process; else a target that a session factory accepts.
        config: the ConfigProto from which the options were read, or None.
        jit: "off" (reference kernels), "background" (programs are compiled meanwhile) or "eager" (the first run of a
            signature waits, without blocking the loop, until its program is compiled).
        device_count: the number of devices by type; for other types, that type decides.
        intra_op_threads: threads of a device's kernels; 0 for one a processor.
        inter_op_threads: kernels and partitions that run at once; 0 for one a processor, negative for one.
        session_inter_op_thread_pool: the session's pools, chosen by `RunOptions.inter_op_thread_pool`; usually none.
        device_filters: the tasks whose devices are used, in a session on a server; none: all.
        use_per_session_threads: the session has threads of its own.
        allow_soft_placement: a node that cannot run on its device is placed on another one.
        log_device_placement: log the device of each node.
        isolate_session_state: variables and queues are not shared with other sessions, in a session on a server.
        graph_options: options of the planner.
        session_metadata: a name and version for reports, unique in the process.
        disable_output_partition_graphs: refuse RunOptions.output_partition_graphs.
        optimize_for_static_graph: the graph is not changed after the first plan.
        use_numa_affinity: each CPU device and its threads belong to one NUMA node.
        operation_timeout_in_ms: deadline of each step, 0 for none.
        max_steps_in_flight: steps that may run at once, 0: unlimited; other steps wait, or fail if `refuse_when_busy`.
        arena_bytes: memory a device may hold for running programs; 0: the limit on queued runs (`arena_limit`).
        weights: in what native programs keep the constant float32 matrices of products; see `Panels.storage`.
    """

    target: str = ""
    config: Any = None
    jit: JitMode = "background"
    device_count: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    device_filters: tuple[str, ...] = ()
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    session_inter_op_thread_pool: tuple[ThreadPoolOptions, ...] = ()
    use_per_session_threads: bool = False
    allow_soft_placement: bool = False
    log_device_placement: bool = False
    operation_timeout_in_ms: int = 0
    isolate_session_state: bool = False
    graph_options: GraphOptions = GraphOptions()
    session_metadata: SessionMetadata | None = None
    disable_output_partition_graphs: bool = False
    optimize_for_static_graph: bool = False
    use_numa_affinity: bool = False
    max_steps_in_flight: int = 0
    refuse_when_busy: bool = False
    arena_bytes: int = 0
    weights: Storage = ""

    @classmethod
    def from_config(cls, target: str, config: Any) -> SessionOptions:
        """Read a ConfigProto, or None; unset options are taken from AIOEXEC_JIT, then from the defaults.

        Raises:
            GraphTypeError: an argument of a wrong type.
            GraphValueError: a value that is not allowed.
        """
        if not isinstance(target, str):
            raise GraphTypeError(f"Session: target must be a string, got {target!r}")
        if config is None:
            return cls(target, jit=_jit_mode(""))
        config = own_message(config, "ConfigProto", "config")
        experimental, ours = config.experimental, config.aioexec
        return cls(
            target,
            config,
            _jit_mode(ours.jit),
            MappingProxyType(dict(config.device_count)),
            tuple(config.device_filters),
            min(max(0, config.intra_op_parallelism_threads), _MOST_THREADS),
            min(config.inter_op_parallelism_threads, _MOST_THREADS),
            tuple(
                ThreadPoolOptions(min(each.num_threads, _MOST_THREADS), each.global_name)
                for each in config.session_inter_op_thread_pool
            ),
            config.use_per_session_threads,
            config.allow_soft_placement,
            config.log_device_placement,
            config.operation_timeout_in_ms,
            config.isolate_session_state,
            _graph_options(config.graph_options),
            _metadata(experimental),
            experimental.disable_output_partition_graphs,
            experimental.optimize_for_static_graph,
            experimental.use_numa_affinity,
            _not_negative("max_steps_in_flight", ours.max_steps_in_flight),
            ours.refuse_when_busy,
            _not_negative("arena_bytes", ours.arena_bytes),
            _storage(ours.weights),
        )

    def describe(self) -> str:
        """The options as one line, for errors."""
        text = "" if self.config is None else " ".join(str(self.config).split())
        return f'target: "{self.target}" config: {text}'


def own_message(message: Any, kind: str, argument: str) -> Any:
    """Convert `message` to our message class; one of TensorFlow's is serialized and parsed.

    Raises:
        GraphTypeError: it is not a message of this kind.
    """
    from aioexec.formats import protos

    ours = getattr(protos, kind)
    if isinstance(message, ours):
        return message
    if getattr(getattr(message, "DESCRIPTOR", None), "name", None) != kind:
        raise GraphTypeError(f"{argument} must be a {kind}, got {message!r}")
    return ours.FromString(message.SerializeToString())


def _jit_mode(asked: str) -> JitMode:
    jit = asked or os.environ.get("AIOEXEC_JIT", "") or "background"
    if jit not in _JIT_MODES:
        raise GraphValueError(f"ConfigProto.aioexec.jit: expected one of {_JIT_MODES}, got {jit!r}")
    return cast("JitMode", jit)


def _storage(asked: str) -> Storage:
    if asked not in get_args(Storage):
        raise GraphValueError(
            f"ConfigProto.aioexec.weights: expected one of {get_args(Storage)}, got {asked!r}"
        )
    return cast("Storage", asked)


def _not_negative(name: str, value: int) -> int:
    if value < 0:
        raise GraphValueError(f"ConfigProto.aioexec.{name}: expected 0 or more, got {value}")
    return value


def _graph_options(options: Any) -> GraphOptions:
    optimizer, rewriter = options.optimizer_options, options.rewrite_options
    return GraphOptions(
        optimizer.opt_level,
        optimizer.do_common_subexpression_elimination,
        optimizer.do_constant_folding,
        not rewriter.disable_meta_optimizer and rewriter.remapping != rewriter.OFF,
        rewriter.remapping == rewriter.AGGRESSIVE,
        options.place_pruned_graph,
        options.build_cost_model,
        options.build_cost_model_after,
    )


def _metadata(experimental: Any) -> SessionMetadata | None:
    if not experimental.HasField("session_metadata"):
        return None
    return SessionMetadata(experimental.session_metadata.name, experimental.session_metadata.version)
