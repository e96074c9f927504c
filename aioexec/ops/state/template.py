"""Templates: functions that create their variables in the first call and reuse them in later calls."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.variable_scope import VariableScope, variable_scope

logger = logging.getLogger(__name__)


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """Return a function that calls `func_`, whose `get_variable` calls share their variables between calls.

    Args:
        name_: name of the variable scope, made unique.
        create_scope_now_: create the scope now, in the current scope, rather than at the first call.
        unique_name_: exact name of the scope.
        custom_getter_: custom getter of the scope; see `get_variable`.
        kwargs: additional arguments of `func_` in all calls.

    Raises:
        GraphValueError: the name is None.
    """
    function = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """The result of `make_template`.

    State: `variable_scope` is None until the scope is created; `_is_made`: whether a call has created the variables.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        if name is None:
            raise GraphValueError("make_template: name cannot be None")
        self.name = name
        self.func = func
        self.variable_scope: VariableScope | None = None
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._is_made = False
        frame = sys._getframe(2)
        self._made_at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if create_scope_now:
            with self._new_scope(auxiliary_name_scope=False) as scope:
                self.variable_scope = scope

    def _new_scope(self, **options: Any) -> Any:
        return variable_scope(self._unique_name, self.name, custom_getter=self._custom_getter, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function within the scope.

        Raises:
            GraphValueError: a call after the first creates a trainable variable.
        """
        if self.variable_scope is None:
            opened = self._new_scope()
        else:
            opened = variable_scope(self.variable_scope, reuse=self._is_made)
        with opened as scope:
            if self.variable_scope is None:
                self.variable_scope = scope
            try:
                return self._call(args, kwargs)
            except Exception as error:
                error.add_note(f"in a call of the template {self.name!r}, made at {self._made_at}")
                raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        graph = get_default_graph()
        before = {
            name: len(graph.get_collection_ref(name))
            for name in (GraphKeys.TRAINABLE_VARIABLES, GraphKeys.GLOBAL_VARIABLES)
        }
        result = self.func(*args, **kwargs)
        if not self._is_made:
            self._is_made = True
            return result
        new = {name: graph.get_collection_ref(name)[count:] for name, count in before.items()}
        if new[GraphKeys.TRAINABLE_VARIABLES]:
            raise GraphValueError(
                "Trainable variable created when calling a template after the first time, perhaps you used "
                f"tf.Variable when you meant tf.get_variable: {new[GraphKeys.TRAINABLE_VARIABLES]}"
            )
        if new[GraphKeys.GLOBAL_VARIABLES]:
            logger.info(
                "New variables created when calling a template after the first time, perhaps you used "
                "tf.Variable when you meant tf.get_variable: %s",
                new[GraphKeys.GLOBAL_VARIABLES],
            )
        return result

    # Variables: none before the first call

    @property
    def var_scope(self) -> VariableScope | None:
        """The old name of `variable_scope`."""
        return self.variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of the scope with a trailing slash."""
        if self.variable_scope is None:
            return None
        name = self.variable_scope.name
        return name if not name or name.endswith("/") else f"{name}/"

    def _held(self, collection: str) -> list[Any]:
        if not self._is_made:
            return []
        return get_default_graph().get_collection(collection, self.variable_scope_name)

    @property
    def variables(self) -> list[Any]:
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list[Any]:
        return self._held(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def non_trainable_variables(self) -> list[Any]:
        trainable = {id(variable) for variable in self.trainable_variables}
        return [variable for variable in self.global_variables if id(variable) not in trainable]

    @property
    def global_variables(self) -> list[Any]:
        return self._held(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Any]:
        return self._held(GraphKeys.LOCAL_VARIABLES)

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables
