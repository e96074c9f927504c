"""Hyperparameters: types, text, JSON and dicts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aioexec.contrib.training import HParams, parse_values
from aioexec.errors import GraphValueError


def made(**more: Any) -> HParams:
    return HParams(rate=0.1, units=[10, 20], name="relu", steps=5, flag=False, **more)


def test_parameters_are_attributes():
    hparams = made(nothing=None)

    assert (hparams.rate, hparams.units, hparams.nothing) == (0.1, [10, 20], None)
    assert "rate" in hparams
    assert "missing" not in hparams
    assert hparams.values()["steps"] == 5
    assert str(HParams(b=1, a=2)) == "[('a', 2), ('b', 1)]"
    assert repr(HParams(a=2)) == "HParams([('a', 2)])"
    with pytest.raises(AttributeError, match="missing"):
        _ = hparams.missing


def test_parameters_are_set_from_text():
    hparams = made().parse("rate=2,units=[1,2,3],name=tanh, steps=7,flag=true")

    assert hparams.values() == {"rate": 2.0, "units": [1, 2, 3], "name": "tanh", "steps": 7, "flag": True}
    assert isinstance(hparams.rate, float)
    assert made().parse("units[1]=7").units == [10, 7]
    assert made().parse("").units == [10, 20]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate", "Malformed"),
        ("unknown=1", "Unknown hyperparameter type"),
        ("steps=1.5", "Could not parse hparam 'steps'"),
        ("flag=maybe", "Could not parse hparam 'flag'"),
        ("units=[1,x]", "Could not parse hparam 'units'"),
        ("steps=1,steps=2", "Multiple assignments"),
        ("units[0]=1,units[0]=2", "Multiple assignments"),
        ("units[0]=[1]", "list to a list index"),
        ("steps=[1]", "Must not pass a list"),
        ("units=1", "Must pass a list"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, message: str):
    with pytest.raises(GraphValueError, match=message):
        made().parse(text)


def test_values_are_parsed_by_type():
    types = {"a": int, "b": float, "c": bool, "d": str}

    assert parse_values("a=1,b=[1,2.5],c=0,d=x y,a.b=3", {**types, "a.b": int}) == {
        "a": 1,
        "b": [1.0, 2.5],
        "c": False,
        "d": "x y",
        "a.b": 3,
    }
    assert parse_values("a[1]=3,a[0]=4", types) == {"a": {1: 3, 0: 4}}
    assert parse_values("a=1,z=2", types, ignore_unknown=True) == {"a": 1}


def test_parameters_are_set_from_json_and_dicts():
    hparams = made().parse_json('{"rate": 3, "units": [4]}').override_from_dict({"steps": 9})

    assert (hparams.rate, hparams.units, hparams.steps) == (3.0, [4], 9)
    assert json.loads(hparams.to_json()) == hparams.values()
    assert HParams(b=1, a=2, f=print).to_json(sort_keys=True) == '{"a": 2, "b": 1}'


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", "x"), ("name", 1), ("flag", 1), ("steps", True), ("steps", 1.0), ("units", ["x"])],
)
def test_values_of_other_types_are_refused(name: str, value: Any):
    with pytest.raises(GraphValueError, match=f"Could not cast hparam '{name}'"):
        made().set_hparam(name, value)


def test_parameters_are_added_and_removed():
    hparams = made()
    hparams.add_hparam("new", "x")
    hparams.set_hparam("new", "y")
    hparams.del_hparam("rate")

    assert hparams.new == "y"
    assert "rate" not in hparams
    with pytest.raises(GraphValueError, match="reserved: parse"):
        hparams.add_hparam("parse", 1)
    with pytest.raises(GraphValueError, match="reserved: new"):
        hparams.add_hparam("new", 1)
    with pytest.raises(GraphValueError, match="empty"):
        hparams.add_hparam("list", [])
    with pytest.raises(KeyError):
        hparams.set_hparam("other", 1)


def test_a_parameter_has_a_default():
    hparams = made()

    assert hparams.get("rate") == 0.1
    assert hparams.get("other", 3) == 3
    assert hparams.get("units", [1]) == [10, 20]
    with pytest.raises(GraphValueError, match="Could not cast"):
        hparams.get("rate", "x")
    with pytest.raises(GraphValueError, match="must be a list"):
        hparams.get("units", 1)


def test_a_structure_is_kept():
    hparams = HParams(model_structure="a")
    assert hparams.get_model_structure() == "a"
    hparams.set_model_structure("b")
    assert hparams.get_model_structure() == "b"
    with pytest.raises(GraphValueError, match="hparam_def"):
        HParams(hparam_def=object())
