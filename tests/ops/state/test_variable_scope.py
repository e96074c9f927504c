"""get_variable and variable_scope: names, sharing, defaults, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.initializers import Constant, GlorotUniform, Ones, Zeros
from aioexec.ops.state.variable import ReferenceVariable, ResourceVariable
from aioexec.ops.state.variable_scope import (
    AUTO_REUSE,
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_scope,
)
from tests.ops.evaluate import Evaluator


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def value_of(variable: Any) -> Any:
    evaluator = Evaluator()
    evaluator.run(variable.initializer)
    return evaluator.run(variable.value())


# Names


def test_variables_are_named_after_the_scopes_they_are_made_in(graph):
    with variable_scope("outer"), variable_scope("inner") as scope:
        variable = get_variable("v", [1])

    assert variable.name == "outer/inner/v:0"
    assert scope.name == "outer/inner"
    assert get_variable("v", [1]).name == "v:0"


def test_name_scopes_do_not_name_variables(graph):
    with graph.name_scope("ops"), variable_scope("s"):
        variable = get_variable("v", [1])
        node = constant(1.0, name="c")

    assert variable.name == "s/v:0"
    assert variable.initial_value.name.startswith("s/v/Initializer/")
    assert node.name == "ops/s/c:0"


def test_a_scope_opened_twice_by_name_has_one_variable_scope_and_two_name_scopes(graph):
    names = []
    for _ in range(2):
        with variable_scope("s", reuse=AUTO_REUSE) as scope:
            names.append(
                (get_variable("v", [1]).name, constant(1.0, name="c").name, scope.original_name_scope)
            )

    assert names == [("s/v:0", "s/c:0", "s/"), ("s/v:0", "s_1/c:0", "s_1/")]


def test_a_scope_entered_again_leaves_the_scope_around_it(graph):
    with variable_scope("first", initializer=Ones()) as first:
        pass
    with variable_scope("second"), variable_scope(first) as again:
        variable = get_variable("v", [2])
        node = constant(1.0, name="c")

    assert again.name == "first"
    assert again.original_name_scope == "first/"
    assert variable.name == "first/v:0"
    assert value_of(variable).tolist() == [1.0, 1.0]
    assert node.name == "second/first/c:0"


def test_default_names_are_made_unique_within_the_scope(graph):
    names = []
    for _ in range(2):
        with variable_scope("s"):
            for _ in range(2):
                with variable_scope(None, default_name="layer") as scope:
                    names.append(scope.name)

    assert names == ["s/layer", "s/layer_1", "s/layer", "s/layer_1"]


def test_without_its_name_scope_a_variable_scope_leaves_nodes_where_they_are(graph):
    with graph.name_scope("ops"), variable_scope("s", auxiliary_name_scope=False) as scope:
        node = constant(1.0, name="c")

    assert node.name == "ops/c:0"
    assert scope.original_name_scope == "ops/"


def test_the_scope_is_left_when_the_block_raises(graph):
    with pytest.raises(RuntimeError, match="mine"), variable_scope("s"):
        raise RuntimeError("mine")

    assert get_variable_scope().name == ""


# Sharing


def test_a_scope_that_reuses_finds_what_was_made(graph):
    with variable_scope("s"):
        made = get_variable("v", [2])
    with variable_scope("s", reuse=True):
        assert get_variable("v", [2]) is made
        assert get_variable("v") is made


def test_reuse_holds_for_inner_scopes_and_from_reuse_variables_on(graph):
    with variable_scope("s") as scope:
        with variable_scope("t"):
            made = get_variable("v", [2])
        scope.reuse_variables()
        with variable_scope("t", reuse=False):
            assert get_variable("v", [2]) is made


def test_auto_reuse_makes_a_variable_once(graph):
    with variable_scope("s", reuse=AUTO_REUSE):
        assert get_variable("v", [2]) is get_variable("v", [2])


def test_a_variable_that_exists_is_refused_where_nothing_is_reused(graph):
    get_variable("v", [2])

    with pytest.raises(ValueError, match=r"Variable v already exists, .* at test_variable_scope\.py:\d+"):
        get_variable("v", [2])


def test_a_variable_that_does_not_exist_is_refused_where_all_is_reused(graph):
    with variable_scope("s", reuse=True), pytest.raises(ValueError, match="Variable s/v does not exist"):
        get_variable("v", [2])


def test_variables_made_otherwise_are_not_found(graph):
    ax.Variable(1.0, name="v")

    with variable_scope("", reuse=True), pytest.raises(ValueError, match="does not exist"):
        get_variable("v")


def test_a_shared_variable_must_be_wanted_as_what_it_is(graph):
    get_variable("v", [2])
    with variable_scope("", reuse=True):
        with pytest.raises(ValueError, match=r"specified shape \(3,\) and found shape \(2,\)"):
            get_variable("v", [3])
        with pytest.raises(ValueError, match="specified dtype int32 and found dtype float32"):
            get_variable("v", [2], "int32")


def test_graphs_share_nothing(graph):
    get_variable("v", [2])
    with Graph().as_default():
        assert get_variable("v", [3]).shape.as_list() == [3]


# Defaults


def test_defaults_of_a_scope_are_inherited_and_overridden(graph):
    with variable_scope("s", initializer=Constant(3.0), dtype="float64", use_resource=True):
        inherited = get_variable("a", [1])
        with variable_scope("t", initializer=Ones(), use_resource=False):
            overridden = get_variable("b", [1])
        own = get_variable("c", [1], initializer=Zeros, dtype="int32")

    assert (value_of(inherited), value_of(overridden), value_of(own)) == (3.0, 1.0, 0)
    assert inherited.dtype.name == "float64"
    assert isinstance(inherited, ResourceVariable)
    assert isinstance(overridden, ReferenceVariable)
    assert own.dtype.name == "int32"


def test_setters_change_the_scope_for_what_comes_after(graph):
    scope = get_variable_scope()
    scope.set_initializer(Ones())
    scope.set_dtype("float64")
    scope.set_use_resource(True)
    scope.set_regularizer(no_regularizer)
    scope.set_caching_device("/cpu:0")
    scope.set_constraint(abs)
    scope.set_custom_getter(None)

    variable = get_variable("v", [1])

    assert (variable.dtype.name, variable.constraint, value_of(variable).tolist()) == ("float64", abs, [1.0])
    assert scope.partitioner is None


def test_the_default_initializer_depends_on_the_dtype(graph):
    drawn = value_of(get_variable("f", [100]))

    assert np.abs(drawn).max() <= np.sqrt(6 / 200)
    assert len(np.unique(drawn)) > 90
    assert value_of(get_variable("i", [2], "int32")).tolist() == [0, 0]
    assert value_of(get_variable("b", [1], "bool")).tolist() == [False]
    with pytest.raises(ValueError, match="complex64"):
        get_variable("c", [1], "complex64")


def test_an_initializer_may_be_a_value_a_class_or_a_function(graph):
    assert value_of(get_variable("value", initializer=[1, 2])).tolist() == [1, 2]
    assert value_of(get_variable("typed", initializer=1, dtype="float64")).dtype == np.float64
    assert value_of(get_variable("tensor", initializer=constant([3.0]))).tolist() == [3.0]
    assert value_of(get_variable("class", [2], initializer=Ones)).tolist() == [1.0, 1.0]
    assert value_of(get_variable("function", initializer=lambda: constant([4.0]))).tolist() == [4.0]
    plain = get_variable("plain", [2], initializer=lambda shape, dtype: ax.ones(shape, dtype))
    assert value_of(plain).tolist() == [1.0, 1.0]
    bare = get_variable("bare", [2], initializer=lambda shape: ax.ones(shape))
    assert value_of(bare).tolist() == [1.0, 1.0]


def test_regularizers_add_to_the_losses(graph):
    with variable_scope("s", regularizer=lambda v: ax.reduce_sum(v * v)):
        get_variable("a", initializer=[1.0, 2.0])
        with variable_scope("t", regularizer=no_regularizer):
            get_variable("b", initializer=[1.0])
        get_variable("c", initializer=[3.0], regularizer=lambda v: None)

    (loss,) = graph.get_collection(GraphKeys.REGULARIZATION_LOSSES)
    assert loss.name.startswith("s/a/Regularizer/")
    assert loss.op.colocation_groups() == [b"loc:@s/a"]


def test_local_variables_are_listed_as_local_and_not_trained(graph):
    variable = get_local_variable("v", [1])

    assert graph.get_collection(GraphKeys.LOCAL_VARIABLES) == [variable]
    assert not variable.trainable
    assert graph.get_collection(GraphKeys.GLOBAL_VARIABLES) == []


def test_a_scope_lists_the_variables_in_it(graph):
    get_variable("v", [1])
    with variable_scope("s") as scope:
        inside = get_variable("v", [1])
        local = get_local_variable("l", [1])

    assert scope.global_variables() == [inside]
    assert scope.trainable_variables() == [inside]
    assert scope.local_variables() == [local]


# Custom getters


def test_a_custom_getter_stands_between_the_caller_and_the_variable(graph):
    asked = []

    def getter(get: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return get(name, *args, **kwargs) * 2.0

    with variable_scope("s", custom_getter=getter):
        doubled = get_variable("v", initializer=[1.0])

    assert asked == ["s/v"]
    assert doubled.op.type == "Mul"


def test_custom_getters_are_called_from_the_inside_out(graph):
    asked = []

    def getter(label: str) -> Any:
        def get_by(get: Any, *args: Any, **kwargs: Any) -> Any:
            asked.append(label)
            return get(*args, **kwargs)

        return get_by

    with (
        variable_scope("s", custom_getter=getter("outer")),
        variable_scope("t", custom_getter=getter("inner")),
    ):
        get_variable("v", [1])

    assert asked == ["inner", "outer"]


# Errors


def test_shapes_of_new_variables_must_be_known(graph):
    with pytest.raises(ValueError, match=r"Shape of a new variable \(v\) must be fully defined"):
        get_variable("v", [None, 2])
    with pytest.raises(ValueError, match=r"Shape of a new variable \(v\)"):
        get_variable("v")
    with pytest.raises(ValueError, match=r"Shape of a new variable \(v\)"):
        get_variable("v", [None], initializer=lambda: constant([1.0]))
    with pytest.raises(ValueError, match="shape must be None"):
        get_variable("v", [1], initializer=[1.0])
    with pytest.raises(ValueError, match="the initializer is float32, but dtype says int32"):
        get_variable("v", initializer=constant(1.0), dtype="int32")


def test_what_failed_can_be_tried_again(graph):
    with pytest.raises(ValueError, match="Shape"):
        get_variable("v")

    assert get_variable("v", [1], initializer=GlorotUniform()).name == "v:0"


def test_scopes_want_a_name(graph):
    with pytest.raises(TypeError, match="name_or_scope"), variable_scope(None):
        pass
    with pytest.raises(TypeError, match="got 3"), variable_scope(3):
        pass
    with pytest.raises(ValueError, match="reuse=True"), variable_scope(None, "default", reuse=True):
        pass
