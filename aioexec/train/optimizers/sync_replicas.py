"""SyncReplicasOptimizer: replicas compute gradients at the same step, which are averaged and applied once.

1. Each variable has a conditional accumulator. A replica applies gradients to it, marked with its local step, and then waits
   for a token.
2. A queue runner of the chief takes the mean of enough gradients of each variable, applies the means, and increments the global
   step.
3. It enqueues one token per replica, with the new global step. A replica dequeues one and assigns it to its local step.

Gradients of a replica that was too slow have an old step: accumulators drop them, and the replica still gets a token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.array.filling import fill
from aioexec.ops.containers.accumulator_classes import ConditionalAccumulator, SparseConditionalAccumulator
from aioexec.ops.containers.queue_class import FIFOQueue
from aioexec.ops.control_flow.dependencies import group, no_op
from aioexec.ops.state.assignments import assign
from aioexec.ops.state.initialization import global_variables, report_uninitialized_variables
from aioexec.ops.state.variable import Variable
from aioexec.sessions.session import Session
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.task_thread import TaskThread
from aioexec.train.errors import TrainingStateError
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.input.queue_runner import QueueRunner
from aioexec.train.optimizers.optimizer import GradientAndVariable, Optimizer
from aioexec.train.sessions.session_manager import missing_variables

QUEUE_NAME = "sync_token_q"


class SyncReplicasOptimizer(Optimizer):
    """Wraps an optimizer to apply the mean of the gradients of several replicas.

    Args:
        opt: the optimizer that applies the means.
        replicas_to_aggregate: the number of gradients per step.
        total_num_replicas: the number of replicas; if it is larger, the slowest of a step are dropped, if it is smaller, some
            replicas contribute gradients of several batches.
        variable_averages: an ExponentialMovingAverage to apply after each step, to `variables_to_average`.

    State: all but the arguments is made by `apply_gradients`.
    """

    chief_init_op: Operation
    """Initialises the local step of the chief, and sets the global step of the accumulators."""
    local_step_init_op: Any
    """Initialises the local step of a replica."""
    ready_for_local_init_op: Tensor
    """Names the uninitialized variables that either of them needs."""

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Iterable[Any] | None = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._global_step: Any = None
        self._local_step: Any = None
        self._sync_token_queue: Any = None
        self._chief_queue_runner: QueueRunner | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradientAndVariable]:
        """The gradients of the wrapped optimizer."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[GradientAndVariable], global_step: Any = None, name: str | None = None
    ) -> Any:
        """A node that sends a replica's gradients and waits until the step that they, or others, are part of is applied.

        Raises:
            GraphValueError: there are no gradients, or there is no global step.
            GraphTypeError: a gradient is neither tensor nor IndexedSlices.
        """
        pairs = list(grads_and_vars or ())
        if not pairs:
            raise GraphValueError("Must supply at least one variable")
        if global_step is None:
            raise GraphValueError("Global step is required to check staleness")
        self._global_step = global_step
        graph = get_default_graph()
        self._local_step = self._new_local_step()
        self.local_step_init_op = assign(self._local_step, global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        with graph.name_scope(self._name):
            given, taken, accumulators = [], [], []
            for gradient, var in pairs:
                with graph.device(var.device):
                    mean = None
                    if gradient is not None:
                        accumulator, give, mean = self._accumulate(gradient, var)
                        given.append(give)
                        accumulators.append((accumulator, var.device))
                    taken.append((mean, var))
            with graph.device(global_step.device), graph.name_scope(None):
                update = self._opt.apply_gradients(taken, global_step)
                train_op = self._with_tokens(given, update)
            self.chief_init_op = self._new_chief_init_op(accumulators)
        return train_op

    def _new_local_step(self) -> Any:
        """The step of a replica's gradients: a variable on its own device."""
        with get_default_graph().colocate_with(no_op()):
            return Variable(
                0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=self._global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )

    def _accumulate(self, gradient: Any, var: Any) -> tuple[Any, Operation, Any]:
        """The accumulator of a variable, the op that applies a gradient to it, and the mean of enough of them."""
        shared_name = f"{var.name}/grad_accum"
        count, step = self._replicas_to_aggregate, self._local_step
        if isinstance(gradient, IndexedSlices):
            slices = SparseConditionalAccumulator(gradient.dtype, shape=(), shared_name=shared_name)
            give = slices.apply_indexed_slices_grad(gradient, local_step=step)
            return slices, give, slices.take_indexed_slices_grad(count)
        if not isinstance(gradient, Tensor):
            raise GraphTypeError(f"Unknown grad type: {gradient!r}")
        dense = ConditionalAccumulator(gradient.dtype, shape=var.shape, shared_name=shared_name)
        return dense, dense.apply_grad(gradient, local_step=step), dense.take_grad(count)

    def _with_tokens(self, given: list[Operation], update: Operation) -> Any:
        """Make the token queue and the runner that fills it after each step; returns the op that dequeues after `given`."""
        graph, dtype = get_default_graph(), self._global_step.dtype.base_dtype
        queue = FIFOQueue(-1, dtype, shapes=(), name=QUEUE_NAME, shared_name=QUEUE_NAME)
        with graph.control_dependencies(given):
            token = queue.dequeue()
        train_op = assign(self._local_step, token)
        with graph.control_dependencies([update]):
            tokens = max(self._total_num_replicas, self._replicas_to_aggregate)
            sync = queue.enqueue_many((fill([tokens], self._current_step()),))
        if self._variable_averages is not None:
            with graph.control_dependencies([sync]):
                sync = self._variable_averages.apply(self._variables_to_average)
        self._sync_token_queue = queue
        self._chief_queue_runner = QueueRunner(queue, [sync])
        return train_op

    def _current_step(self) -> Any:
        """The global step after the control inputs of new nodes: an older value would make all gradients stale."""
        step = self._global_step
        return step.read_value() if isinstance(step, Variable) else step

    def _new_chief_init_op(self, accumulators: list[tuple[Any, str]]) -> Operation:
        graph = get_default_graph()
        initial = [self.local_step_init_op]
        for accumulator, device in accumulators:
            with graph.device(device):
                initial.append(accumulator.set_global_step(self._global_step, name="SetGlobalStep"))
        return group(*initial)

    def get_chief_queue_runner(self) -> QueueRunner:
        """The queue runner that applies the means and enqueues tokens; to be started by the chief.

        Raises:
            GraphValueError: `apply_gradients` was not called.
        """
        if self._chief_queue_runner is None:
            raise GraphValueError("get_chief_queue_runner() should be called after apply_gradients()")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """An operation for the chief to run once, which enqueues the first tokens.

        Args:
            num_tokens: by default the number of gradients per step. With fewer replicas than that, some must contribute several
                in the first step, for which they need tokens.

        Raises:
            GraphValueError: there are too few, or `apply_gradients` was not called.
        """
        if self._chief_queue_runner is None:
            raise GraphValueError("get_init_tokens_op() should be called after apply_gradients()")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise GraphValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)"
            )
        if num_tokens <= 0:
            return no_op(name="no_init_tokens")
        graph = get_default_graph()
        with graph.device(self._global_step.device), graph.name_scope(None):
            tokens = fill([num_tokens], self._global_step)
            enqueue: Operation = self._sync_token_queue.enqueue_many((tokens,))
            return enqueue

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """A hook that initialises the local step, and for the chief starts the queue runner and enqueues the first tokens."""
        return SyncReplicasHook(self, is_chief, num_tokens)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """The slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        return self._opt.variables()


class SyncReplicasHook(SessionRunHook):
    """Initialises a replica; see `SyncReplicasOptimizer.make_session_run_hook`."""

    def __init__(self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._local_init_op: Any = None
        self._init_tokens_op: Operation | None = None

    def begin(self) -> None:
        """Make the ops to run later, before the graph is finalised."""
        optimizer = self._sync_optimizer
        optimizer.get_chief_queue_runner()  # made by `apply_gradients`
        self._local_init_op = optimizer.local_step_init_op
        if self._is_chief:
            self._local_init_op = optimizer.chief_init_op
            self._init_tokens_op = optimizer.get_init_tokens_op(self._num_tokens)

    async def after_create_session(self, session: Session, coord: Coordinator) -> None:
        optimizer = self._sync_optimizer
        missing = await missing_variables(
            optimizer.ready_for_local_init_op,
            session,
            "Model is not ready for SyncReplicasOptimizer local init",
        )
        if missing is not None:
            raise TrainingStateError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
                f"Init op: {self._local_init_op.name}, error: {missing}"
            )
        await session.run(self._local_init_op)
        if self._init_tokens_op is not None:
            await session.run(self._init_tokens_op)
            _start(optimizer.get_chief_queue_runner(), session, coord)


def _start(runner: QueueRunner, session: Session, coord: Coordinator) -> None:
    """Start the chief's queue runner, cancelled when a stop is requested.

    Closing its queue is not enough: the runner waits for gradients, and no replica may send any more.
    """
    taking, *others = runner.create_threads(session, coord=coord, daemon=True)

    async def cancel_on_stop() -> None:
        await coord.wait_for_stop()
        taking.cancel()

    stopping = TaskThread(cancel_on_stop, f"{taking.name}-stop", daemon=True, owner=session.own)
    coord.register_thread(stopping)
    for thread in (taking, *others, stopping):
        thread.start()
