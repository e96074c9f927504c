"""Training steps as tensors: the loss after gradients were multiplied, clipped and applied."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies, name_scope
from aioexec.ops.control_flow.dependencies import no_op, with_dependencies
from aioexec.ops.control_flow.numerics import check_numerics
from aioexec.ops.io.summary_functions import histogram, scalar
from aioexec.ops.math.arithmetic import multiply
from aioexec.ops.reduction.norms import clip_by_norm, global_norm
from aioexec.ops.state.initialization import trainable_variables
from aioexec.train.optimizers.optimizer import Optimizer

logger = logging.getLogger(__name__)

Pairs = list[tuple[Any, Any]]
"""Gradients with their variables."""


def clip_gradient_norms(gradients_to_variables: Pairs, max_norm: Any) -> Pairs:
    """Scale each gradient whose norm is larger to `max_norm`."""
    return [
        (_with_values(each, lambda x: clip_by_norm(x, max_norm)), var) for each, var in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: Any) -> Callable[[Pairs], Pairs]:
    """Return `clip_gradient_norms` as a function of the pairs."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def _with_values(gradient: Any, function: Callable[[Any], Any]) -> Any:
    """A gradient after a function of its values."""
    if gradient is None:
        return None
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)


def multiply_gradients(grads_and_vars: Pairs, gradient_multipliers: Mapping[Any, Any]) -> Pairs:
    """Multiply gradients by factors, given by variable or by the name of its node.

    Raises:
        GraphValueError: the pairs are no list, the factors no dict or empty, or a variable with a factor has no gradient.
    """
    if not isinstance(grads_and_vars, list):
        raise GraphValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise GraphValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise GraphValueError("`gradient_multipliers` must be a dict.")
    multiplied = []
    for gradient, variable in grads_and_vars:
        factor = gradient_multipliers.get(variable, gradient_multipliers.get(variable.op.name))
        if factor is not None:
            if gradient is None:
                raise GraphValueError("Requested multiple of `None` gradient.")
            factor = factor if isinstance(factor, Tensor) else constant(factor, gradient.dtype.base_dtype)
            gradient = _with_values(gradient, functools.partial(multiply, factor))
        multiplied.append((gradient, variable))
    return multiplied


def add_gradients_summaries(grads_and_vars: Pairs) -> list[Any]:
    """Add a histogram of each gradient and a summary of its norm; return the summaries."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            logger.info("Var %s has no gradient", variable.op.name)
            continue
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        summaries.append(histogram(f"{variable.op.name}_gradient", values))
        summaries.append(scalar(f"{variable.op.name}_gradient_norm", global_norm([values])))
    return summaries


def create_step(
    total_loss: Any,
    optimizer: Optimizer,
    global_step: Any,
    update_ops: Any = None,
    variables_to_train: Sequence[Any] | None = None,
    transform: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics_of_loss: bool = True,
) -> Tensor:
    """Return the loss after the updates and a step of the optimizer.

    Args:
        global_step: the variable to count in; None for none.
        update_ops: nodes to run before the loss is computed; by default UPDATE_OPS.
        variables_to_train: by default all trainable variables.
        transform: a function of the gradients.
        check_numerics_of_loss: whether a loss that is no number is an error of the step.

    Raises:
        GraphValueError: a variable to train is not trainable, or there is none.
    """
    total_loss = _after_updates(total_loss, update_ops)
    trained = trainable_variables() if variables_to_train is None else variables_to_train
    known = {id(variable) for variable in trainable_variables()}
    if not trained or any(id(variable) not in known for variable in trained):
        raise GraphValueError(
            f"variables_to_train must be trainable variables, at least one, got {trained!r}"
        )
    pairs = optimizer.compute_gradients(
        total_loss,
        trained,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform is not None:
        pairs = transform(pairs)
    if summarize_gradients:
        with name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with name_scope("train_op"):
        if check_numerics_of_loss:
            total_loss = check_numerics(total_loss, "LossTensor is inf or nan")
        train_op: Tensor = with_dependencies([step], total_loss)
    graph = get_default_graph()
    if all(train_op is not each for each in graph.get_collection_ref(GraphKeys.TRAIN_OP)):
        graph.add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op


def _after_updates(total_loss: Any, update_ops: Any) -> Any:
    """The loss after the updates."""
    held = get_default_graph().get_collection(GraphKeys.UPDATE_OPS)
    updates = list(dict.fromkeys(held if update_ops is None else update_ops))
    if not {id(each) for each in held} <= {id(each) for each in updates}:
        logger.warning(
            "update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS"
        )
    if not updates:
        return total_loss
    with control_dependencies(updates):
        barrier = no_op(name="update_barrier")
    return with_dependencies([barrier], total_loss)
