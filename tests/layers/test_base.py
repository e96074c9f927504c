"""Layers: scopes, sharing of variables, losses and updates."""

import copy

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.layers.base import Layer, snake_case
from aioexec.layers.input_spec import InputSpec


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def squares(variable):
    return ax.reduce_sum(ax.square(variable))


class Scale(Layer):
    """Multiplies by a weight for each column, which starts at 2."""

    def __init__(self, regularizer=None, **kwargs):
        super().__init__(**kwargs)
        self.regularizer = regularizer

    def build(self, input_shape):
        start = ax.constant_initializer(2.0)
        self.scale = self.add_weight("scale", [input_shape[-1]], None, start, self.regularizer)
        self.count = self.add_weight("count", [], initializer=ax.zeros_initializer(), trainable=False)
        super().build(input_shape)

    def call(self, inputs):
        self.add_update(ax.assign_add(self.count, ax.reduce_sum(inputs)))
        return ax.multiply(inputs, self.scale)


def inputs(columns=3, name=None):
    return ax.placeholder(ax.float32, [None, columns], name)


def test_names_follow_class_and_use():
    first, second, named = Scale(), Scale(), Scale(name="own")

    outputs = [layer(inputs()) for layer in (second, first, named)]

    assert [first.name, second.name, named.name] == ["scale_1", "scale_2", "own"]
    assert [output.name for output in outputs] == ["scale/Mul:0", "scale_1/Mul:0", "own/Mul:0"]
    assert [layer.scope_name for layer in (second, first, named)] == ["scale", "scale_1", "own"]
    assert first.scale.name == "scale_1/scale:0"


def test_a_layer_without_a_call_has_no_scope():
    with pytest.raises(GraphValueError, match="has not been used yet"):
        Scale().scope_name


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("Conv2DTranspose", "conv2d_transpose"),
        ("BatchNormalization", "batch_normalization"),
        ("GRUCell", "gru_cell"),
        ("_Hidden", "private__hidden"),
    ],
)
def test_class_names_become_scopes(name, scope):
    assert snake_case(name) == scope


def test_a_layer_called_twice_shares_its_variables(graph):
    layer = Scale()

    first, second = layer(inputs()), layer(inputs())

    assert [variable.name for variable in ax.global_variables()] == ["scale/scale:0", "scale/count:0"]
    assert [first.op.name, second.op.name] == ["scale/Mul", "scale/Mul_1"]
    assert graph.get_collection(ax.GraphKeys.UPDATE_OPS) == layer.updates
    assert len(layer.updates) == 2


def test_reuse_of_a_scope_shares_variables():
    first, second = Scale(name="a", _scope="a"), Scale(name="a", _scope="a", _reuse=True)

    first(inputs())
    output = second(inputs())

    assert second.scale is first.scale
    assert output.name == "a_1/Mul:0"


def test_a_scope_cannot_be_used_twice_without_reuse():
    Scale(_scope="a")(inputs())

    with pytest.raises(GraphValueError, match="already exists"):
        Scale(_scope="a")(inputs())


def test_reuse_requires_the_variables():
    with pytest.raises(GraphValueError, match="does not exist"):
        Scale(_scope="a", _reuse=True)(inputs())


def test_reuse_is_inherited_from_the_variable_scope():
    with ax.variable_scope("outer"):
        first = Scale(_scope="a")
        first(inputs())
    with ax.variable_scope("outer", reuse=True):
        second = Scale(_scope="a")
        second(inputs())

    assert first.scale.name == "outer/a/scale:0"
    assert second.scale is first.scale


def test_the_scope_may_be_given_by_the_first_call():
    layer = Scale(name="own")

    layer.apply(inputs(), scope="given")

    assert layer.scale.name == "given/scale:0"


def test_weights_are_trainable_or_not():
    layer = Scale()
    layer(inputs())

    assert layer.trainable_weights == [layer.scale] == ax.trainable_variables()
    assert layer.non_trainable_variables == [layer.count]
    assert layer.variables == [layer.scale, layer.count]
    assert layer.count_params() == 4


def test_weights_of_a_layer_that_is_not_trainable():
    layer = Scale(trainable=False)
    layer(inputs())

    assert layer.trainable_variables == ax.trainable_variables() == []
    assert layer.non_trainable_weights == layer.weights == ax.global_variables()
    assert layer.updates == []


def test_params_are_counted_after_the_first_call():
    with pytest.raises(GraphValueError, match="isn't built"):
        Scale().count_params()


def test_layers_in_attributes_count():
    class Pair(Layer):
        def __init__(self):
            super().__init__()
            self.first, self.others = Scale(squares), [Scale()]

        def call(self, inputs):
            return self.others[0](self.first(inputs))

    layer = Pair()
    layer(inputs())

    names = [variable.name for variable in layer.trainable_weights]
    assert names == ["pair/scale/scale:0", "pair/scale_1/scale:0"]
    assert layer.losses == layer.first.losses
    assert len(layer.updates) == 2


async def test_a_regularizer_adds_a_loss_once():
    layer = Scale(squares, _scope="a")
    layer(inputs())
    layer(inputs())
    Scale(squares, _scope="a", _reuse=True)(inputs())

    (loss,) = ax.get_collection(ax.GraphKeys.REGULARIZATION_LOSSES)

    assert layer.losses == layer.get_losses_for(None) == [loss]
    assert loss.name == "a/scale/Regularizer/Sum:0"
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        assert await session.run(loss) == 12.0


async def test_an_activity_regularizer_adds_a_loss_for_the_inputs():
    x = inputs()
    layer = Scale(activity_regularizer=ax.reduce_sum)
    layer(x)

    assert layer.get_losses_for(x) == layer.losses
    assert layer.get_losses_for(None) == layer.get_losses_for(inputs()) == []
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        assert await session.run(layer.losses, {x: np.ones([4, 3])}) == [6.0]


def test_updates_depend_on_the_inputs_of_their_call():
    layer = Scale()
    first, second = inputs(), inputs()
    layer(first)
    layer(second)
    layer.add_update(ax.no_op())

    assert layer.get_updates_for(first) == layer.updates[:1]
    assert layer.get_updates_for(second) == layer.updates[1:2]
    assert layer.get_updates_for(None) == layer.updates[2:]


def test_the_dtype_is_that_of_the_first_input():
    layer = Scale()
    assert layer.dtype is None

    layer(ax.placeholder(ax.float64, [None, 2]))

    assert layer.dtype == "float64"
    assert layer.scale.dtype.base_dtype == ax.float64


def test_arrays_become_tensors():
    output = Scale()(np.ones([2, 3], np.float32))

    assert output.shape.as_list() == [2, 3]


def test_the_initializer_of_the_scope_is_the_default():
    class Plain(Layer):
        def build(self, input_shape):
            self.weight = self.add_weight("weight", [2])

    with ax.variable_scope("outer", initializer=ax.ones_initializer()):
        layer = Plain()
        layer(inputs())

    assert layer.weight.initial_value.op.name.startswith("outer/plain/weight/Initializer/ones")


def test_partitioned_variables_count_by_their_parts():
    class Table(Layer):
        def build(self, input_shape):
            self.add_weight("table", [4, 2], regularizer=squares)

    with ax.variable_scope("outer", partitioner=ax.fixed_size_partitioner(2)):
        layer = Table()
        layer(inputs(4))

    assert [variable.name for variable in layer.trainable_weights] == [
        "outer/table/table/part_0:0",
        "outer/table/table/part_1:0",
    ]
    assert len(layer.losses) == 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            InputSpec(ndim=3),
            "Input 0 of layer own is incompatible with the layer: expected ndim=3, found ndim=2",
        ),
        (InputSpec(min_ndim=3), "expected min_ndim=3, found ndim=2"),
        (InputSpec(max_ndim=1), "expected max_ndim=1, found ndim=2"),
        (InputSpec(dtype=ax.int32), "expected dtype=int32, found dtype=float32"),
        (InputSpec(axes={-1: 5}), "expected axis -1 of input shape to have value 5"),
        (InputSpec(shape=[None, 4]), "expected shape="),
        ([InputSpec(), InputSpec()], "expects 2 inputs, but it received 1 input tensors"),
    ],
)
def test_inputs_must_match_the_spec(spec, message):
    layer = Layer(name="own")
    layer.input_spec = spec

    with pytest.raises(GraphValueError, match=message):
        layer(inputs())


def test_a_required_rank_must_be_known():
    layer = Layer()
    layer.input_spec = InputSpec(min_ndim=2)

    with pytest.raises(GraphValueError, match="its rank is undefined"):
        layer(ax.placeholder(ax.float32))


def test_a_spec_requires_tensors():
    layer = Layer()
    layer.input_spec = InputSpec(ndim=2)

    with pytest.raises(GraphTypeError, match="should be tensors"):
        layer("text")


def test_unknown_arguments_are_refused():
    with pytest.raises(GraphTypeError, match="Keyword argument not understood: 'size'"):
        Layer(size=3)


def test_variables_read_after_updates_are_not_trainable():
    on_read = ax.VariableSynchronization.ON_READ

    variable = Layer().add_weight("count", [], synchronization=on_read)

    assert not variable.trainable
    with pytest.raises(GraphValueError, match="only for non-trainable variables"):
        Layer().add_weight("count", [], synchronization=on_read, trainable=True)


def test_a_copy_made_before_the_first_call_has_variables_of_its_own(graph):
    layer = Scale()

    copied = copy.deepcopy(layer)
    layer(inputs())
    copied(inputs())

    assert copied.graph is graph
    assert [layer.scale.op.name, copied.scale.op.name] == ["scale/scale", "scale_1/scale"]
    assert copied.trainable_weights == [copied.scale]
