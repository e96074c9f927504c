"""Templates share their variables between calls. Against TensorFlow: the interop suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def scaled(x: Any, factor: float = 1.0) -> Any:
    return x * factor * ax.get_variable("v", initializer=2.0)


def test_all_calls_share_the_variables_of_the_first():
    template = ax.make_template("scale", scaled, factor=3.0)
    assert template.variables == []

    template(1.0)
    template(2.0)

    assert [variable.name for variable in ax.global_variables()] == ["scale/v:0"]
    assert template.trainable_variables == ax.global_variables()
    assert template.variable_scope_name == "scale/"


def test_two_templates_of_one_name_share_nothing():
    for _ in range(2):
        ax.make_template("scale", scaled)(1.0)

    assert [variable.name for variable in ax.global_variables()] == ["scale/v:0", "scale_1/v:0"]


def test_the_scope_is_that_of_the_first_call_or_taken_when_it_is_made():
    with ax.variable_scope("outer"):
        early, late = (ax.make_template("scale", scaled, create_scope_now_=now) for now in (True, False))
    early(1.0)
    late(1.0)

    assert [variable.name for variable in ax.global_variables()] == ["outer/scale/v:0", "scale/v:0"]


def test_a_variable_made_by_a_later_call_is_refused_and_the_template_named():
    template = ax.make_template("scale", lambda x: x + ax.Variable(1.0))
    template(1.0)

    with pytest.raises(GraphValueError, match="Trainable variable created") as caught:
        template(2.0)
    assert "made at" in caught.value.__notes__[0]
    assert "test_template.py" in caught.value.__notes__[0]


def test_a_template_has_a_name():
    with pytest.raises(GraphValueError, match="name"):
        ax.make_template(None, scaled)
