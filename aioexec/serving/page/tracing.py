"""A traced step of a signature: the values of its outputs, and its timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aioexec.errors import FailedPreconditionError
from aioexec.formats.protos import RunMetadata, RunOptions, StepStats
from aioexec.in_thread import in_thread
from aioexec.observability.timeline import Timeline
from aioexec.serving.models.served_version import Signature

Array = np.ndarray[Any, Any]


class TracedRunner(Protocol):
    """A session that can trace a step."""

    async def run(
        self, fetches: Any, feed_dict: Any = None, *, options: RunOptions, run_metadata: RunMetadata
    ) -> Any:
        """Run a step, and store its step stats in `run_metadata`."""


@runtime_checkable
class HasSession(Protocol):
    """A signature whose steps run in a session that can be named."""

    @property
    def session(self) -> TracedRunner:
        """The session."""


def session_of(signature: Signature) -> TracedRunner | None:
    """Return the session of a signature, None if it runs otherwise."""
    return signature.session if isinstance(signature, HasSession) else None


async def run_traced(
    signature: Signature, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Run one step with full traces; return the outputs, and the events of Chrome's trace format.

    `inputs` fit the signature already. The step is not batched with others.

    Raises:
        FailedPreconditionError: the signature has no session.
    """
    session = session_of(signature)
    if session is None:
        raise FailedPreconditionError(f"signature {signature.name!r}: its steps cannot be traced")
    metadata = RunMetadata()
    outputs: dict[str, Array] = await session.run(
        dict(signature.outputs),
        {signature.inputs[name]: value for name, value in inputs.items()},
        options=RunOptions(trace_level=RunOptions.FULL_TRACE),
        run_metadata=metadata,
    )
    return outputs, await in_thread(_events_of, metadata.step_stats)


def _events_of(step_stats: StepStats) -> list[dict[str, Any]]:
    trace = Timeline(step_stats).analyze_step_stats(show_dataflow=False, show_memory=False).chrome_trace
    return trace.metadata + trace.events
