"""TrainSpec and EvalSpec: the two halves of `train_and_evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.estimator.arguments import checked_hooks, checked_listeners
from aioexec.estimator.exporters import Exporter
from aioexec.train.hooks.saving_hooks import CheckpointSaverListener
from aioexec.train.hooks.session_run_hook import SessionRunHook


class _TrainSpec(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[SessionRunHook, ...]
    saving_listeners: tuple[CheckpointSaverListener, ...]


class TrainSpec(_TrainSpec):
    """The arguments of `Estimator.train`.

    Args:
        max_steps: the global step at which training ends; None: at the end of input.

    Raises:
        GraphValueError: `max_steps` is not positive.
        GraphTypeError: an argument is of the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        saving_listeners: Iterable[CheckpointSaverListener] | None = None,
    ) -> Self:
        _check_input_fn(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise GraphValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(
            cls, input_fn, max_steps, checked_hooks(hooks), checked_listeners(saving_listeners)
        )


class _EvalSpec(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[SessionRunHook, ...]
    exporters: tuple[Exporter, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalSpec):
    """The arguments of `Estimator.evaluate`, and when it is called.

    Args:
        steps: the batches of an evaluation; None: to the end of input.
        exporters: an Exporter, or several of different names, which are called after each evaluation.
        start_delay_secs: the seconds that the evaluator of a cluster waits first.
        throttle_secs: the least seconds between the starts of two evaluations.

    Raises:
        GraphValueError: a number out of range, or exporters of one name.
        GraphTypeError: an argument is of the wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> Self:
        _check_input_fn(input_fn)
        if steps is not None and steps <= 0:
            raise GraphValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise GraphTypeError(f"`name` must be string, given: {name!r}")
        if start_delay_secs < 0:
            raise GraphValueError(f"Must specify start_delay_secs >= 0, given: {start_delay_secs}")
        if throttle_secs < 0:
            raise GraphValueError(f"Must specify throttle_secs >= 0, given: {throttle_secs}")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            checked_hooks(hooks),
            _checked_exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise GraphTypeError(f"`input_fn` must be callable, given: {input_fn!r}")


def _checked_exporters(given: Any) -> tuple[Exporter, ...]:
    if not given:
        return ()
    exporters = (given,) if isinstance(given, Exporter) else given
    if not isinstance(exporters, Iterable) or not all(isinstance(each, Exporter) for each in exporters):
        raise GraphTypeError(
            f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {given!r}."
        )
    names = [exporter.name for exporter in exporters]
    if not all(isinstance(name, str) and name for name in names):
        raise GraphValueError(
            f"An Exporter cannot have a name that is `None` or empty. All exporter names: {names}"
        )
    if len(set(names)) != len(names):
        raise GraphValueError(f"`exporters` must have unique names. All exporter names: {names}")
    return tuple(exporters)
