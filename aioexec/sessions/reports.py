"""Reports on steps: RunMetadata, the cost models of a session, the counters of the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import errors
from aioexec.errors import GraphTypeError, InvalidArgumentError, OpError, ResourceExhaustedError
from aioexec.execution.executor import Executor
from aioexec.observability import metrics
from aioexec.observability.cost_model import CostModel, CostModelManager, is_measured
from aioexec.observability.step_stats import StepStatsCollector, allocations_report
from aioexec.planning.plan import RemotePartition
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.run_options import StepOptions

_CODE_NAMES = {code: name for name, code in vars(errors).items() if name.isupper() and isinstance(code, int)}


class StepReport:
    """The report on one step; see `Reports.begin`.

    Constant: `executor`, which runs the step; `_options`, of the step; `_metadata`, the caller's RunMetadata or None;
    `_updates_costs`, whether the step updates the cost model; `collector`, of the times of its nodes, None if nothing needs
    them.
    """

    __slots__ = ("_metadata", "_options", "_reports", "_updates_costs", "collector", "executor")

    def __init__(
        self, reports: Reports, executor: Executor, options: StepOptions, metadata: Any, updates_costs: bool
    ) -> None:
        self.executor = executor
        self._reports = reports
        self._options = options
        self._metadata = metadata
        self._updates_costs = updates_costs
        is_watched = (
            updates_costs
            or options.report_tensor_allocations_upon_oom
            or (options.is_traced and metadata is not None)
        )
        self.collector = StepStatsCollector() if is_watched else None

    def record_success(self, feeds: Sequence[Any], outputs: Sequence[Any], nanoseconds: int) -> None:
        """Record that the step succeeded."""
        count_success(feeds, outputs, nanoseconds)
        if self._updates_costs and self.collector is not None:
            self._reports.learn(self.executor, self.collector)

    def write(self) -> None:
        """Fill the caller's RunMetadata; not on the event loop, since the messages of a large graph take long."""
        self._reports.write(self)

    def record_failure(self, error: BaseException, nanoseconds: int) -> BaseException:
        """Record that the step failed; returns the error to raise."""
        count_failure(error, nanoseconds)
        if (
            not isinstance(error, ResourceExhaustedError)
            or not self._options.report_tensor_allocations_upon_oom
        ):
            return error
        assert self.collector is not None
        return _with_allocations(error, allocations_report(self.collector.records))

    def fill(self, own: Any, session: SessionOptions) -> None:
        """Write the requested parts to a RunMetadata of our class."""
        if self._options.is_traced and self.collector is not None:
            own.step_stats.CopyFrom(self.collector.step_stats())
        partitions = self.executor.plan.partitions
        if self._options.output_partition_graphs:
            own.partition_graphs.extend(_graph_defs(partitions))
            own.partition_graphs.extend(_remote_graph_defs(self.executor.plan.remote))
        if self._updates_costs:
            model = self._reports.model_of(self.executor)
            for graph_def in _graph_defs(partitions):
                model.add_to_cost_graph(own.cost_graph, graph_def)
        if session.session_metadata is not None:
            own.session_metadata.name = session.session_metadata.name
            own.session_metadata.version = session.session_metadata.version

    def give(self, own: Any) -> None:
        """Copy a RunMetadata of our class to the caller's, which may be of another class."""
        give(own, self._metadata)


class Reports:
    """A session's reports, with its `_options`. `_models` are the cost models, by executor."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._models = CostModelManager()

    @property
    def are_always_made(self) -> bool:
        """Whether any step may update the cost models."""
        return self._options.graph_options.build_cost_model > 0

    def begin(self, executor: Executor, options: StepOptions, metadata: Any) -> StepReport:
        """Start the report on a step.

        Raises:
            InvalidArgumentError: partition graphs are requested, which this session does not export.
            GraphTypeError: `metadata` is not a RunMetadata.
        """
        if options.output_partition_graphs and self._options.disable_output_partition_graphs:
            raise InvalidArgumentError(
                "RunOptions.output_partition_graphs() is not supported when disable_output_partition_graphs is true."
            )
        check_metadata(metadata)
        return StepReport(self, executor, options, metadata, self._updates_costs(executor))

    def _updates_costs(self, executor: Executor) -> bool:
        every = self._options.graph_options.build_cost_model
        if every <= 0:
            return False
        return is_measured(executor.step_count, every, self._options.graph_options.build_cost_model_after)

    def write(self, report: StepReport) -> None:
        """Fill the caller's RunMetadata."""
        from aioexec.formats.protos import RunMetadata

        own = RunMetadata()
        report.fill(own, self._options)
        report.give(own)

    def learn(self, executor: Executor, collector: StepStatsCollector) -> None:
        """Update the cost model from a step, and pass it to the step's executor."""
        model = self.model_of(executor)
        model.record_step(collector.records)
        for runner in executor.runners:
            runner.learn(model)

    def model_of(self, executor: Executor) -> CostModel:
        return self._models.find_or_create(executor)

    def cost_models(self) -> list[CostModel]:
        """The cost models of graphs that were run often enough."""
        return list(self._models.export().values())


def check_metadata(metadata: Any) -> None:
    """Raise GraphTypeError unless it is a RunMetadata, ours or TensorFlow's, or None."""
    kind = getattr(getattr(metadata, "DESCRIPTOR", None), "name", None)
    if metadata is not None and kind != "RunMetadata":
        raise GraphTypeError(f"run_metadata must be a RunMetadata, got {metadata!r}")


def give(own: Any, metadata: Any) -> None:
    """Copy a RunMetadata of our class to a caller's, of either class."""
    if isinstance(metadata, type(own)):
        metadata.CopyFrom(own)
    else:
        metadata.ParseFromString(own.SerializeToString())


def count_success(feeds: Sequence[Any], outputs: Sequence[Any], nanoseconds: int) -> None:
    """Count a step that succeeded."""
    metrics.count_step(nanoseconds, _bytes(feeds), _bytes(outputs))


def count_failure(error: BaseException, nanoseconds: int) -> None:
    """Count a step that failed or was cancelled."""
    code = error.error_code if isinstance(error, OpError) else errors.CANCELLED
    metrics.count_failed_step(nanoseconds, _CODE_NAMES[code])


def _graph_defs(partitions: Sequence[Any]) -> list[Any]:
    from aioexec.planning.export import subgraph_to_graph_def

    return [subgraph_to_graph_def(partition.shown, partition.device) for partition in partitions]


def _remote_graph_defs(parts: Sequence[RemotePartition]) -> list[Any]:
    from aioexec.planning.export import subgraph_to_graph_def

    return [subgraph_to_graph_def(part.subgraph) for part in parts]


def _bytes(values: Sequence[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def _with_allocations(error: OpError, report: str) -> OpError:
    extended = type(error)(error.node_def, error.op, f"{error.message}\n{report}")
    extended.node, extended.op_type = error.node, error.op_type
    extended.device, extended.created_at = error.device, error.created_at
    return extended
