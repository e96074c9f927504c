"""Layers whose variables are named by name scopes, as those of Keras: what they have beside the layers of `tf.layers`.

A layer without a name is called by its class, with a number from the second of a graph on: `dense`, `dense_1`. Its variables
are resource variables, named by the name scope of the first call. Losses and updates are only in the layer's own lists, not in
the collections of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.keras.learning_phase import learning_phase
from aioexec.layers import base
from aioexec.layers.arguments import initializer_of
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.state.initializers import GlorotUniform, Zeros
from aioexec.ops.state.variable import Variable

_NAMES: Final = ("__keras_layer_names",)
"""The collection whose single value counts the names of a graph's layers that were given none."""


class Layer(base.Layer):
    """The base of Keras' layers; subclasses define `call(inputs, ...)`, and `build(input_shape)` if they have variables.

    Args:
        trainable: whether its variables are trained, if they are trainable.
        name: the name scope of calls.
        dtype: of variables; by default that of the first input.
    """

    def _names(self, name: Any) -> tuple[str, str]:
        own = name or _numbered(base.snake_case(type(self).__name__))
        return own, own

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer to a tensor, or a structure of tensors, in a name scope called as the layer.

        Raises:
            GraphValueError: the inputs do not match `input_spec`.
        """
        inputs = map_structure(base.as_tensor, inputs)
        with graph_of(flatten(inputs)).as_default() as graph:
            return self._call_in_scope(graph, inputs, args, kwargs)

    def _name_scope(self) -> str:
        return self.name

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
        synchronization: Any = None,
        aggregation: Any = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Create a variable in the current name scope.

        Args:
            dtype: by default that of the layer, else float32.
            initializer: by default `glorot_uniform` for floating dtypes, else zeros.
            regularizer: function of the variable, whose result is added to the losses of the layer.
            trainable: by default True; never if the layer is not trainable.
            use_resource, synchronization, aggregation, partitioner, kwargs: have no effect here.
        """
        kind = dtypes.as_dtype(dtype or self._dtype or dtypes.float32)
        make = initializer_of(initializer) or (GlorotUniform() if kind.is_floating else Zeros())
        make = make() if isinstance(make, type) else make
        variable = Variable(
            lambda: make(() if shape is None else shape, kind),
            trainable=self.trainable and trainable is not False,
            name=name,
            dtype=kind,
            constraint=constraint,
            use_resource=True,
        )
        if regularizer is not None:
            with get_default_graph().name_scope(f"{name}/Regularizer"):
                self.add_loss(regularizer(variable))
        self._keep(variable)
        return variable

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add a tensor, a function that returns one, or a list of them to the losses of the layer."""
        values = [loss() if callable(loss) else loss for loss in flatten(losses)]
        tensors = [convert_to_tensor(value) for value in values if value is not None]
        self._own_losses.add(tensors, is_conditional=inputs is not None)


class Wrapper(Layer):
    """A layer around another one, `layer`; subclasses call it.

    Raises:
        GraphTypeError: `layer` is no layer.
    """

    def __init__(self, layer: base.Layer, **kwargs: Any) -> None:
        if not isinstance(layer, base.Layer):
            raise GraphTypeError(f"Layer {layer} supplied to wrapper is not a supported layer type.")
        self.layer = layer
        super().__init__(**kwargs)

    def build(self, input_shape: Any = None) -> None:
        """Create the variables of the inner layer, if it has none yet."""
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True


class TrainedLayer(Layer):
    """A layer that does something else in training: `training` of a call is by default the learning phase."""

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer; `training` is a bool or a boolean scalar tensor, by default `keras.backend.learning_phase()`."""
        if not args and kwargs.get("training") is None:
            with graph_of(flatten(map_structure(base.as_tensor, inputs))).as_default():
                kwargs["training"] = learning_phase()
        return super().__call__(inputs, *args, **kwargs)


def _numbered(name: str) -> str:
    """The name, with the number of the graph's earlier layers of that name if there are some."""
    held = get_default_graph().get_collection_ref(_NAMES)
    if not held:
        held.append({})
    counts: dict[str, int] = held[0]
    number = counts.get(name, 0)
    counts[name] = number + 1
    return f"{name}_{number}" if number else name
