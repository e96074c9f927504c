"""Arguments of and from the user: what a function takes, of which it is passed only that, and checked hooks and listeners."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train.hooks.saving_hooks import CheckpointSaverListener
from aioexec.train.hooks.session_run_hook import SessionRunHook

logger = logging.getLogger(__name__)

_MODEL_ARGUMENTS = {"features", "labels", "mode", "params", "self", "config"}
_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The positional arguments of a function, without `self` and without those that a partial has bound.

    Keyword-only arguments are not included: TensorFlow does not pass them either.
    """
    if isinstance(function, functools.partial):
        names = argument_names(function.func)[len(function.args) :]
        return tuple(name for name in names if name not in function.keywords)
    parameters = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind in _NAMED)


def call_with(function: Callable[..., Any], **available: Any) -> Any:
    """Call a function with those of the available arguments that it takes."""
    names = argument_names(function)
    return function(**{name: value for name, value in available.items() if name in names})


def checked_hooks(hooks: Iterable[SessionRunHook] | None) -> tuple[SessionRunHook, ...]:
    """The hooks, of which None stands for none.

    Raises:
        GraphTypeError: one is no SessionRunHook.
    """
    found = tuple(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise GraphTypeError(f"All hooks must be SessionRunHook instances, given: {hook!r}")
    return found


def checked_listeners(
    listeners: Iterable[CheckpointSaverListener] | None,
) -> tuple[CheckpointSaverListener, ...]:
    """The listeners, of which None stands for none.

    Raises:
        GraphTypeError: one is no CheckpointSaverListener.
    """
    found = tuple(listeners or ())
    for listener in found:
        if not isinstance(listener, CheckpointSaverListener):
            raise GraphTypeError(
                f"All saving_listeners must be CheckpointSaverListener instances, given: {listener!r}"
            )
    return found


def check_model_fn(model_fn: Any, params: Any) -> None:
    """Check that a model function takes features, and no arguments that an estimator does not pass.

    Raises:
        GraphValueError: it does not.
    """
    if model_fn is None:
        raise GraphValueError("model_fn must be provided to Estimator.")
    names = set(argument_names(model_fn))
    if "features" not in names:
        raise GraphValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise GraphValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to Estimator."
        )
    if params is None and "params" in names:
        logger.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to Estimator.",
            model_fn,
        )
    unknown = sorted(names - _MODEL_ARGUMENTS)
    if unknown:
        raise GraphValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def check_positive(name: str, steps: int | None) -> None:
    """Check a number of steps, if it is given.

    Raises:
        GraphValueError: it is not positive.
    """
    if steps is not None and steps <= 0:
        raise GraphValueError(f"Must specify {name} > 0, given: {steps}")
