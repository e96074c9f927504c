"""The names that programs of TensorFlow 1.x use exist, and refer to the right objects."""

from __future__ import annotations

import importlib

import pytest

import aioexec
from aioexec.client import device_lib, session, timeline
from aioexec.errors import GraphTypeError
from aioexec.formats import protos
from aioexec.formats.protos import ConfigProto
from tests.contrib_names import CONTRIB
from tests.names_table import (
    DATA,
    ELSEWHERE,
    ERRORS,
    ESTIMATOR,
    FEATURE_COLUMN,
    INITIALIZERS,
    KERAS,
    KERAS_LAYERS,
    LAYERS,
    LOSSES,
    MESSAGES,
    METRICS,
    MODULES,
    NOT_OFFERED,
    PUBLIC,
    TRAIN,
)
from tests.tiers import constant, graph, op


def exists(name: str) -> bool:
    module, _, attribute = f"aioexec.{name}".rpartition(".")
    return hasattr(importlib.import_module(module), attribute)


def test_public_names_are_public():
    assert [name for name in PUBLIC if not hasattr(aioexec, name)] == []
    assert [name for name in ERRORS if not hasattr(aioexec.errors, name)] == []
    assert [name for name in TRAIN if not hasattr(aioexec.train, name)] == []
    assert [name for name in LOSSES if not hasattr(aioexec.losses, name)] == []
    assert [name for name in CONTRIB if not exists(f"contrib.{name}")] == []
    assert [name for name in INITIALIZERS if not hasattr(aioexec.initializers, name)] == []
    assert [name for name in (*KERAS, *KERAS_LAYERS) if not exists(f"keras.{name}")] == []
    assert [name for name in LAYERS if not hasattr(aioexec.layers, name)] == []
    assert [name for name in ESTIMATOR if not exists(f"estimator.{name}")] == []
    assert [name for name in DATA if not exists(f"data.{name}")] == []
    assert [name for name in FEATURE_COLUMN if not exists(f"feature_column.{name}")] == []
    assert [name for name in METRICS if not hasattr(aioexec.metrics, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_its_names(module):
    assert [name for name in MODULES[module] if not exists(f"{module}.{name}")] == []


def test_names_that_tensorflow_keeps_elsewhere_are_there():
    assert [name for name in ELSEWHERE.values() if not exists(name)] == []
    assert [name for name in MESSAGES if not hasattr(protos, name)] == []


def test_what_is_not_offered_has_a_reason():
    assert all(NOT_OFFERED.values())


def test_the_client_modules_hold_the_classes_themselves():
    assert session.Session is aioexec.Session
    assert session.InteractiveSession is aioexec.InteractiveSession
    assert timeline.Timeline.__module__ == "aioexec.observability.timeline"


def test_local_devices_are_those_a_session_would_have():
    config = ConfigProto(device_count={"CPU": 2, "REFERENCE": 1})

    (device,) = device_lib.list_local_devices()
    devices = device_lib.list_local_devices(config)

    assert (device.name, device.device_type, device.memory_limit) == ("/device:CPU:0", "CPU", 256 << 20)
    assert [each.name for each in devices] == ["/device:CPU:0", "/device:CPU:1", "/device:REFERENCE:0"]


def test_what_lifts_nodes_out_of_scopes_leaves_their_names():
    with graph() as g, g.name_scope("outer"), g.control_dependencies([constant(1.0)]), aioexec.init_scope():
        lifted = op("Neg", constant(2.0), name="lifted")

    assert (lifted.op.name, lifted.op.control_inputs) == ("outer/lifted", [])


def test_slices_stay_slices_and_values_become_tensors():
    with graph():
        slices = aioexec.IndexedSlices(constant([1.0]), constant([0], "int64"))

        assert aioexec.convert_to_tensor_or_indexed_slices(slices, "float32") is slices
        assert isinstance(aioexec.convert_to_tensor_or_indexed_slices([1.0]), aioexec.Tensor)
        with pytest.raises(GraphTypeError, match="int32"):
            aioexec.convert_to_tensor_or_indexed_slices(slices, "int32")


def test_a_graph_tells_its_collections_and_versions():
    with graph() as g:
        constant(1.0)
        g.add_to_collection("things", 1)

    assert g.collections == ["things"]
    assert g.graph_def_versions == g.as_graph_def().versions
