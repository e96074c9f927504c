"""Scaffold: the operations and the saver that initialise, check, summarise and save a model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphTypeError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.io.summary_functions import merge_all
from aioexec.ops.lookup.lookup_tables import tables_initializer
from aioexec.ops.state.initialization import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.errors import TrainingStateError

if TYPE_CHECKING:
    from aioexec.sessions.session import Session

logger = logging.getLogger(__name__)


class Scaffold:
    """The operations and the saver of a model; those not given are taken from the graph's collections or made by `finalize`.

    Args:
        init_op: initialises variables; it is fed init_feed_dict.
        init_fn: called as `init_fn(scaffold, session)` after init_op; plain or `async def`.
        ready_op: the names of uninitialised variables, as a vector of strings.
        ready_for_local_init_op: the names of uninitialised variables that local_init_op needs.
        local_init_op: initialises the state of this process; it is fed local_init_feed_dict.
        summary_op: a serialised Summary of all values to record.
        copy_from_scaffold: supplies the arguments that are not given.

    Raises:
        GraphTypeError: copy_from_scaffold is no Scaffold.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Scaffold, Session], Awaitable[Any] | Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise GraphTypeError(f"copy_from_scaffold is not a Scaffold instance: {copy_from_scaffold!r}")

        def given(value: Any, field: str) -> Any:
            return getattr(copy_from_scaffold, field, None) if value is None else value

        self._init_op = given(init_op, "init_op")
        self._init_feed_dict = given(init_feed_dict, "init_feed_dict")
        self._user_init_fn = given(
            init_fn, "_user_init_fn"
        )  # it is called with this scaffold, not with the other
        self._ready_op = given(ready_op, "ready_op")
        self._ready_for_local_init_op = given(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = given(local_init_op, "local_init_op")
        self._local_init_feed_dict = given(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = given(summary_op, "summary_op")
        self._saver = given(saver, "saver")

    def finalize(self) -> Scaffold:
        """Find or make the arguments that were not given, in the default graph, and finalize that.

        Raises:
            TrainingStateError: a collection holds several candidates.
        """
        default = self.get_or_default
        if self._init_op is None:
            self._init_op = default("init_op", GraphKeys.INIT_OP, _init_op)
        if self._ready_op is None:
            self._ready_op = default("ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = default(
                "ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP, _uninitialized_global_variables
            )
        if self._local_init_op is None:
            self._local_init_op = default(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, self.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = default("summary_op", GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = default("saver", GraphKeys.SAVERS, _saver)
        self._saver.build()
        get_default_graph().finalize()
        logger.info("Graph was finalized.")
        return self

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The item of a collection of the default graph; if it is empty, a new one, which is added there.

        Raises:
            TrainingStateError: it holds several.
        """
        graph = get_default_graph()
        held = graph.get_collection(collection_key)
        if len(held) > 1:
            raise TrainingStateError(
                f'More than one item in the collection "{collection_key}". Please indicate which one to use by passing '
                f"it to the tf.Scaffold constructor as:  tf.Scaffold({arg_name}=item to use)"
            )
        if held:
            return held[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Operation:
        """An operation that initialises local variables and tables."""
        return group(local_variables_initializer(), tables_initializer())

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def init_feed_dict(self) -> Mapping[Any, Any] | None:
        feeds: Mapping[Any, Any] | None = self._init_feed_dict
        return feeds

    @property
    def init_fn(self) -> Callable[[Session], Awaitable[Any] | Any] | None:
        """The init function as a function of the session, with this scaffold bound."""
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Mapping[Any, Any] | None:
        feeds: Mapping[Any, Any] | None = self._local_init_feed_dict
        return feeds

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def saver(self) -> Any:
        return self._saver


def _init_op() -> Operation:
    return group(global_variables_initializer())


def _uninitialized_global_variables() -> Any:
    return report_uninitialized_variables(global_variables())


def _saver() -> Saver:
    return Saver(sharded=True, allow_empty=True)
