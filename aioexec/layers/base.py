"""The base of layers: objects that own variables and apply a function of them to tensors.

A layer's variable scope is chosen at the first call, or at its first variable: the name given to the constructor, or the name
of its class, made unique among the scopes. All later calls enter that scope again with reuse, so a layer that is called twice
shares its variables. Nodes of a call are in the name scope that the variable scope had when it was opened.

Layers are created and called by the thread that builds the graph.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.layers.conditional_values import ConditionalValues
from aioexec.layers.input_spec import check_inputs
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.ops.state.variable_options import VariableSynchronization
from aioexec.ops.state.variable_scope import VariableScope, get_variable, variable_scope

_NAMES: Final = ("__layer_names",)
"""The collection whose single value counts the names of a graph's layers that were given none."""


class Layer:
    """A layer; subclasses define `call(inputs, ...)`, and `build(input_shape)` if they have variables.

    Args:
        trainable: whether its trainable variables are added to TRAINABLE_VARIABLES.
        name: name of the variable scope, made unique; by default the name of the class in snake case.
        dtype: dtype of variables; by default that of the first input.
        _scope: exact variable scope, a name or a VariableScope.
        _reuse: whether variables must exist already; see `variable_scope`.
        activity_regularizer: function of an output, whose result divided by the batch size is added to the losses.

    State: `_scope` is None until it is chosen; `_current_scope` is the scope of the call in progress, or the last one.
    `_trainable_weights` and `_non_trainable_weights` have each variable once, in the order of creation. `built`: whether the
    variables exist.
    """

    stateful = False

    def __init__(self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise GraphTypeError(
                f"{type(self).__name__}: Keyword argument not understood: {next(iter(kwargs))!r}"
            )
        self.trainable = trainable
        self.built = False
        self.input_spec: Any = None
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self._graph = get_default_graph()
        self._name, self._base_name = self._names(name)
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self._own_losses = ConditionalValues()
        self._own_updates = ConditionalValues()
        self._call_inputs: Any = None
        self._scope: VariableScope | None = None
        self._current_scope: VariableScope | None = None
        if scope:
            with variable_scope(scope) as captured:
                self._scope = captured

    def _names(self, name: Any) -> tuple[str, str]:
        """The name of the layer and the name from which its scope is made."""
        base_name = snake_case(type(self).__name__)
        if isinstance(name, VariableScope):
            return _numbered(base_name), name.name
        return (name, name) if name else (_numbered(base_name), base_name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of the layer in the same graph and variable scope."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for key, value in vars(self).items():
            is_shared = key in ("_graph", "_scope", "_current_scope")
            setattr(copied, key, value if is_shared else copy.deepcopy(value, memo))
        return copied

    # For subclasses

    def build(self, input_shape: Any) -> None:
        """Create the variables; called before the first `call` with the shape of the inputs."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs; here the inputs."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the TensorShape of the outputs for that of the inputs; abstract, as in TensorFlow's interface.

        Raises:
            NotImplementedError: the layer does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define compute_output_shape")

    # Calls

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer to a tensor, or a structure of tensors, in the graph of the inputs.

        Args:
            scope: with the first call: name or VariableScope of the variables.

        Raises:
            GraphValueError: the inputs do not match `input_spec`, or a variable cannot be created or shared.
        """
        scope = kwargs.pop("scope", None)
        inputs = map_structure(as_tensor, inputs)
        with graph_of(flatten(inputs)).as_default() as graph:
            self._choose_scope(scope)
            reuse = True if self.built else self._reuse
            with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as entered:
                self._current_scope = entered
                if self._takes_scope():
                    kwargs["scope"] = entered
                outputs = self._call_in_scope(graph, inputs, args, kwargs)
            _add_new(graph, GraphKeys.UPDATE_OPS, self.updates)
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as a call of the layer."""
        return self(inputs, *args, **kwargs)

    def _call_in_scope(self, graph: Graph, inputs: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        check_inputs(self.input_spec, inputs, self.name)
        outer, self._call_inputs = self._call_inputs, inputs
        try:
            with graph.name_scope(self._name_scope()):
                if not self.built:
                    self._build(inputs)
                    check_inputs(self.input_spec, inputs, self.name)
                outputs = self.call(inputs, *args, **kwargs)
                self._regularize_activity(inputs, outputs)
        finally:
            self._call_inputs = outer
        return outputs

    def _build(self, inputs: Any) -> None:
        tensors = [value for value in flatten(inputs) if stands_for_tensor(value)]
        if tensors and self._dtype is None:
            self._dtype = tensors[0].dtype.base_dtype.name
        self.build(map_structure(lambda value: value.shape if stands_for_tensor(value) else None, inputs))
        self.built = True

    def _regularize_activity(self, inputs: Any, outputs: Any) -> None:
        if self._activity_regularizer is None:
            return
        with get_default_graph().name_scope("ActivityRegularizer"):
            for output in flatten(outputs):
                loss = self._activity_regularizer(output)
                batch_size = apply_op("Cast", apply_op("Shape", output)[0], DstT=loss.dtype.base_dtype)
                self.add_loss(loss / batch_size, inputs=inputs)

    def _choose_scope(self, scope: Any) -> None:
        if self._scope is not None:
            return
        given = scope if scope is not None else (self._base_name if self._reuse else None)
        with variable_scope(given, default_name=self._base_name) as captured:
            self._scope = captured

    def _name_scope(self) -> str:
        assert self._current_scope is not None
        return self._current_scope.original_name_scope

    def _takes_scope(self) -> bool:
        return "scope" in inspect.signature(self.call).parameters

    # Variables

    def add_weight(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Callable[[Any], Any] | None = None,
        trainable: bool | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Get or create a variable in the scope of the layer.

        Args:
            dtype: by default that of the layer, else float32.
            initializer: by default that of the scope, else as `get_variable` chooses.
            regularizer: function of the variable; the loss is added to the layer's and to REGULARIZATION_LOSSES, unless the
                variable existed before.
            trainable: by default True, except for synchronization ON_READ; never if the layer is not trainable.
            kwargs: `collections`, and `getter`, a function to call instead of `get_variable`.

        Raises:
            GraphValueError: a variable of that name exists without reuse, is missing with reuse, or has another shape or dtype;
                or synchronization ON_READ of a trainable variable.
        """
        is_read = VariableSynchronization(getattr(synchronization, "value", synchronization or 0))
        if is_read is VariableSynchronization.ON_READ and trainable:
            raise GraphValueError(
                "Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable variables. "
                "You have specified trainable=True and synchronization=VariableSynchronization.ON_READ."
            )
        if trainable is None:
            trainable = is_read is not VariableSynchronization.ON_READ
        getter = kwargs.pop("getter", None) or get_variable
        graph = get_default_graph()
        known = {id(variable) for variable in graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)}
        self._choose_scope(None)
        reuse = True if self.built else self._reuse
        with variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as entered:
            self._current_scope = entered
            with graph.name_scope(self._name_scope()):
                variable = getter(
                    name,
                    shape=() if shape is None else shape,
                    dtype=dtypes.as_dtype(dtype or self._dtype or dtypes.float32),
                    initializer=entered.initializer if initializer is None else initializer,
                    trainable=trainable and self.trainable,
                    constraint=constraint,
                    partitioner=partitioner,
                    use_resource=use_resource or entered.use_resource,
                    synchronization=synchronization,
                    aggregation=aggregation,
                    **kwargs,
                )
                if regularizer is not None:
                    self._regularize(name, variable, regularizer, known)
        self._keep(variable)
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """The older name of `add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _regularize(
        self, name: str, variable: Any, regularizer: Callable[[Any], Any], known: set[int]
    ) -> None:
        """Add the losses of a variable, unless it existed before, by the ids of variables in `known`."""
        parts = _parts(variable)
        if any(id(part) in known for part in parts):
            return
        for part in parts:
            with get_default_graph().name_scope(f"{name}/Regularizer"):
                loss = regularizer(part)
            self.add_loss(loss)

    def _keep(self, variable: Any) -> None:
        known = {id(each) for each in (*self._trainable_weights, *self._non_trainable_weights)}
        for part in _parts(variable):
            if id(part) not in known:
                is_trained = getattr(part, "trainable", False)  # a custom getter may return any object
                (self._trainable_weights if is_trained else self._non_trainable_weights).append(part)

    def _layers(self) -> Iterator[Layer]:
        """The layers in attributes of this one, and in lists and tuples there."""
        for value in vars(self).values():
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, Layer) and each is not self:
                    yield each

    def _all(self, own: list[Any], attribute: str) -> list[Any]:
        """Own values and those of the layers in attributes, each once."""
        values = [*own, *(value for layer in self._layers() for value in getattr(layer, attribute))]
        return list({id(value): value for value in values}.values())

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables to train, each part of a partitioned one by itself; none if the layer is not trainable."""
        return self._all(self._trainable_weights, "trainable_weights") if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables; all of them if the layer is not trainable."""
        if self.trainable:
            return self._all(self._non_trainable_weights, "non_trainable_weights")
        return self._all([*self._trainable_weights, *self._non_trainable_weights], "weights")

    @property
    def weights(self) -> list[Any]:
        """All variables, those to train first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    @property
    def variables(self) -> list[Any]:
        return self.weights

    @property
    def trainable_variables(self) -> list[Any]:
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self.non_trainable_weights

    def count_params(self) -> int:
        """Return the number of elements of all variables.

        Raises:
            GraphValueError: the layer has no variables yet.
        """
        if not self.built:
            raise GraphValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built. "
                f"Build it by a call, or by {self.name}.build(input_shape)"
            )
        return sum(shapes.num_elements(variable.dims) or 0 for variable in self.weights)

    # Losses and updates

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add losses to the layer's and to REGULARIZATION_LOSSES.

        Args:
            losses: a tensor or function that returns one, or a list of them; None is left out.
            inputs: the tensors on which the losses depend; None if they depend on no inputs.
        """
        values = [loss() if callable(loss) else loss for loss in flatten(losses)]
        tensors = [convert_to_tensor(value) for value in values if value is not None]
        self._own_losses.add(tensors, is_conditional=inputs is not None)
        _add_new(get_default_graph(), GraphKeys.REGULARIZATION_LOSSES, tensors)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add nodes to run in each training step; after a call they are in UPDATE_OPS.

        Args:
            updates: a node, a tensor, a function that returns one, or a list of them; None is left out.
            inputs: the tensors that may determine the updates; by default the inputs of the call in progress.
        """
        values = [update() if callable(update) else update for update in flatten(updates)]
        nodes = [value if isinstance(value, Operation) else value.op for value in values if value is not None]
        relevant = self._call_inputs if inputs is None else inputs
        self._own_updates.add_by_inputs(nodes, [] if relevant is None else flatten(relevant))

    @property
    def losses(self) -> list[Any]:
        return self._all(self._own_losses.values, "losses")

    @property
    def updates(self) -> list[Any]:
        """The added updates as nodes; none if the layer is neither trainable nor stateful."""
        return self._all(self._own_updates.values, "updates") if self.trainable or self.stateful else []

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Return the losses that depend on `inputs`; with None, those that depend on no inputs."""
        own = self._own_losses.depending_on(None if inputs is None else flatten(inputs))
        return [*own, *(loss for layer in self._layers() for loss in layer.get_losses_for(inputs))]

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Return the updates that depend on `inputs`; with None, those that depend on no inputs."""
        if not self.trainable and not self.stateful:
            return []
        own = self._own_updates.depending_on(None if inputs is None else flatten(inputs))
        return [*own, *(update for layer in self._layers() for update in layer.get_updates_for(inputs))]

    # Properties

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> str | None:
        """The name of the dtype; None before the first call if the constructor has got none."""
        return self._dtype

    @property
    def graph(self) -> Graph:
        """The default graph at construction."""
        return self._graph

    @property
    def activity_regularizer(self) -> Callable[[Any], Any] | None:
        found: Callable[[Any], Any] | None = self._activity_regularizer
        return found

    @property
    def scope_name(self) -> str:
        """The name of the variable scope.

        Raises:
            GraphValueError: the layer has not been used yet.
        """
        if self._scope is None:
            raise GraphValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been used yet. '
                "The scope name is determined the first time the layer instance is called. "
                'You must therefore call the layer before querying "scope_name"'
            )
        return self._scope.name


def constructor_arguments(names: dict[str, Any]) -> dict[str, Any]:
    """The arguments for the constructor of the base class, from the local names of a constructor with the same arguments."""
    arguments = {key: value for key, value in names.items() if key not in ("self", "__class__", "kwargs")}
    return {**arguments, **names["kwargs"]}


def apply_once(kind: Callable[..., Layer], arguments: dict[str, Any]) -> Tensor:
    """Create a layer from the arguments of a function of `tf.layers`, and apply it to `inputs`.

    Of the arguments, `name` is also the exact scope, `reuse` says whether its variables must exist, and `training` belongs to
    the call.
    """
    inputs, reuse = arguments.pop("inputs"), arguments.pop("reuse")
    of_call = {key: arguments.pop(key) for key in ("training",) if key in arguments}
    layer = kind(**arguments, _scope=arguments["name"], _reuse=reuse)
    outputs: Tensor = layer(inputs, **of_call)
    return outputs


def snake_case(name: str) -> str:
    """The name of a class as that of a scope: `Conv2DTranspose` is conv2d_transpose, `_Hidden` is private__hidden."""
    parted = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    lower = re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()
    return f"private{lower}" if lower.startswith("_") else lower


def _numbered(base_name: str) -> str:
    """The name with the number of layers of that name in the default graph."""
    held = get_default_graph().get_collection_ref(_NAMES)
    if not held:
        held.append({})
    counts: dict[str, int] = held[0]
    counts[base_name] = counts.get(base_name, 0) + 1
    return f"{base_name}_{counts[base_name]}"


def as_tensor(value: Any) -> Any:
    """Numbers and arrays as tensors; any other value as it is."""
    is_plain = isinstance(value, bool | int | float | complex) or type(value).__module__ == "numpy"
    return convert_to_tensor(value) if is_plain else value


def _parts(variable: Any) -> list[Any]:
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


def _add_new(graph: Graph, collection: str, values: list[Any]) -> None:
    """Add the values that the collection does not have yet."""
    known = {id(value) for value in graph.get_collection_ref(collection)}
    for value in values:
        if id(value) not in known:
            known.add(id(value))
            graph.add_to_collection(collection, value)
