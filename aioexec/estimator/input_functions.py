"""What an input function returns, as features, labels and hooks."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.train.hooks.session_run_hook import SessionRunHook


class DatasetInitializerHook(SessionRunHook):
    """Initialises the iterator of a dataset in each new session."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def begin(self) -> None:
        self._initializer = self._iterator.initializer

    async def after_create_session(self, session: Any, coord: Any) -> None:
        await session.run(self._initializer)


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[SessionRunHook]]:
    """Return features, labels and hooks for the result of an input function.

    Args:
        result: a dataset, whose next element is used; or (features, labels); or features, for labels None.

    Raises:
        GraphValueError: a list or tuple of another length than 2.
    """
    hooks: list[SessionRunHook] = []
    if hasattr(result, "make_initializable_iterator"):
        iterator = result.make_initializable_iterator()
        hooks.append(DatasetInitializerHook(iterator))
        result = iterator.get_next()
    if not isinstance(result, list | tuple):
        return result, None, hooks
    if len(result) != 2:
        raise GraphValueError("input_fn should return (features, labels) as a len 2 tuple.")
    features, labels = result
    return features, labels, hooks
