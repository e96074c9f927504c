"""Hooks for graphs that run several steps in a loop within one run; a local variable holds their number.

The variable is `steps_per_run`, and less before the last run, so that training and evaluation end at the intended step.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.initializers import Ones
from aioexec.ops.state.variable_scope import AUTO_REUSE, get_variable, variable_scope
from aioexec.train.errors import TrainingStateError
from aioexec.train.global_steps import get_global_step
from aioexec.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from aioexec.train.hooks.stopping_hooks import check_stop

if TYPE_CHECKING:
    from aioexec.sessions.session import Session
    from aioexec.train.coordination.coordinator import Coordinator

logger = logging.getLogger(__name__)

_SCOPE: Final = "hooks"
_NAME: Final = "steps_per_run"
_COLLECTION: Final = f"{_SCOPE}_{_NAME}"


def get_or_create_steps_per_run_variable() -> Any:
    """The variable with the number of steps of the next run, made at first use.

    Raises:
        TrainingStateError: the collection for it holds several.
    """
    held = get_default_graph().get_collection(_COLLECTION)
    if len(held) > 1:
        raise TrainingStateError(f"Multiple steps_per_run_var in collection: {held!r}")
    if held:
        return held[0]
    with variable_scope(_SCOPE, reuse=AUTO_REUSE):
        return get_variable(
            _NAME,
            shape=[],
            dtype=dtypes.int32,
            initializer=Ones(),
            trainable=False,
            collections=[_COLLECTION, GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


class _MultiStepStopAtStepHook(SessionRunHook):
    """A StopAtStepHook for runs of `steps_per_run` steps: stops after `num_steps` steps or at `last_step`.

    Raises:
        GraphValueError: both or neither of the two are given, or `steps_per_run` is less than 1.
    """

    def __init__(
        self, num_steps: int | None = None, last_step: int | None = None, steps_per_run: int = 1
    ) -> None:
        check_stop(num_steps, last_step)
        if steps_per_run < 1:
            raise GraphValueError("steps_per_run should be greater than 0")
        self._num_steps = num_steps
        self._last_step = last_step
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        self._global_step = get_global_step()
        if self._global_step is None:
            raise TrainingStateError("Global step should be created to use StopAtStepHook")
        self._variable = get_or_create_steps_per_run_variable()

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        global_step = int(await session.run(self._global_step))
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = global_step + self._num_steps
        await self._set_steps(session, global_step, self._last_step)

    async def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        assert self._last_step is not None
        global_step = int(await run_context.session.run(self._global_step))
        if global_step >= self._last_step:
            run_context.request_stop()
        else:
            await self._set_steps(run_context.session, global_step, self._last_step)

    async def _set_steps(self, session: Session, global_step: int, last_step: int) -> None:
        await self._variable.load(min(last_step - global_step, self._steps_per_run), session=session)


class _MultiStepStopAfterNEvalsHook(SessionRunHook):
    """Ends an evaluation after `num_evals` evaluations, None for the end of input; a run makes `steps_per_run`."""

    def __init__(self, num_evals: int | None, steps_per_run: int = 1) -> None:
        self._num_evals = num_evals
        self._steps_per_run = steps_per_run
        self._request = SessionRunArgs({"evals_completed": None})

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._request = SessionRunArgs({"evals_completed": updated_eval_step})

    def begin(self) -> None:
        self._variable = get_or_create_steps_per_run_variable()

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        await self._set_steps(session, done=0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    async def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        done = int(run_values.results["evals_completed"])
        await self._set_steps(run_context.session, done)
        if self._num_evals is None:
            logger.info("Evaluation [%d]", done)
            return
        logger.info("Evaluation [%d/%d]", done, self._num_evals)
        if done >= self._num_evals:
            run_context.request_stop()

    async def _set_steps(self, session: Session, done: int) -> None:
        steps = self._steps_per_run
        if self._num_evals is not None:
            steps = min(steps, self._num_evals - done)
        await self._variable.load(steps, session=session)
