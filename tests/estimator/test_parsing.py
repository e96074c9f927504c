"""Specs of the Examples of canned estimators."""

from __future__ import annotations

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError

es, fc = ax.estimator, ax.feature_column
COLUMNS = [fc.numeric_column("n")]


def test_labels_and_weights_are_read_with_the_features():
    classes = es.classifier_parse_example_spec(COLUMNS, "label", ax.string, "no", weight_column="w")
    numbers = es.regressor_parse_example_spec(COLUMNS, "label", label_dimension=2)

    number = ax.FixedLenFeature((1,), ax.float32)
    assert classes == {"n": number, "label": ax.FixedLenFeature((1,), ax.string, "no"), "w": number}
    assert numbers == {"n": number, "label": ax.FixedLenFeature((2,), ax.float32)}


def test_a_name_is_used_once():
    with pytest.raises(GraphValueError, match="label should not be used as feature"):
        es.classifier_parse_example_spec(COLUMNS, "n")
    with pytest.raises(GraphValueError, match="Key n should not be used"):
        es.classifier_parse_example_spec(COLUMNS, "label", weight_column=fc.numeric_column("n"))
    with pytest.raises(GraphTypeError, match="should be an instance"):
        es.regressor_parse_example_spec(COLUMNS, "label", weight_column=1)


def test_hooks_are_those_of_train():
    for name in ("SessionRunHook", "CheckpointSaverHook", "LoggingTensorHook", "StopAtStepHook"):
        assert getattr(es, name) is getattr(ax.train, name)
