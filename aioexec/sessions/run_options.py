"""The options of one step: RunOptions as plain fields."""

from __future__ import annotations

from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import UnimplementedError
from aioexec.sessions.options import own_message

SOFTWARE_TRACE = 1
"""The least `RunOptions.TraceLevel` at which a step is traced."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of one step, or of the steps of a callable.

    Attributes:
        proto: the RunOptions from which the options were read, or None.
        trace_level: from SOFTWARE_TRACE on, RunMetadata contains the times of the nodes.
        timeout_in_ms: deadline of the step; 0: the session's.
        inter_op_thread_pool: the number of the session's pool on which the step runs; -1: one worker at a time.
        output_partition_graphs: RunMetadata contains the graphs of the partitions.
        report_tensor_allocations_upon_oom: the error of an allocation that fails names the tensors that exist.
    """

    proto: Any = None
    trace_level: int = 0
    timeout_in_ms: int = 0
    inter_op_thread_pool: int = 0
    output_partition_graphs: bool = False
    report_tensor_allocations_upon_oom: bool = False

    @classmethod
    def from_proto(cls, options: Any) -> StepOptions:
        """Read a RunOptions, or None.

        Raises:
            GraphTypeError: it is not a RunOptions.
            UnimplementedError: it enables the debugger.
        """
        if options is None:
            return DEFAULT
        options = own_message(options, "RunOptions", "options")
        if options.debug_options.debug_tensor_watch_opts:
            watched = [watch.node_name for watch in options.debug_options.debug_tensor_watch_opts]
            raise UnimplementedError(
                f"RunOptions.debug_options: tensors cannot be watched, asked for {watched}"
            )
        return cls(
            options,
            options.trace_level,
            options.timeout_in_ms,
            options.inter_op_thread_pool,
            options.output_partition_graphs,
            options.report_tensor_allocations_upon_oom,
        )

    @property
    def is_traced(self) -> bool:
        return self.trace_level >= SOFTWARE_TRACE


DEFAULT = StepOptions()
