"""Our protos beside TensorFlow's: the same declarations, the same bytes, the same values, in one process."""

import importlib
import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import descriptor_pool

from aioexec.formats import protos
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor, make_tensor_proto, shape_from_proto

pytestmark = pytest.mark.interop

# Fields of TensorFlow that are left out here; as unknown fields they survive.
LEFT_OUT = {"GraphDef.debug_info"}
# Messages of the master and worker services and of gRPC's health are not in TensorFlow's Python package.
SERVICE = ("Request", "Response", "ExecutorOpts", "LabeledStepStats", "StepSequence", "TraceOpts")
OURS_ALONE = {"AioexecOptions"}
# A package of TensorFlow's within its own; here all messages are in one.
INNER = "distributed_runtime."
ELSEWHERE = {"GrpcPayloadContainer": f"tensorflow.{INNER}GrpcPayloadContainer"}
# Modules with messages that `import tensorflow` does not load.
UNLOADED = [
    *("tensorflow.core.framework.device_attributes_pb2", "tensorflow.core.protobuf.control_flow_pb2"),
    *("tensorflow.core.protobuf.device_properties_pb2", "tensorflow.core.protobuf.status_pb2"),
    *("tensorflow.core.protobuf.queue_runner_pb2", "tensorflow.core.protobuf.saved_model_pb2"),
    *("tensorflow.core.protobuf.tensor_bundle_pb2", "tensorflow.core.protobuf.named_tensor_pb2"),
    "tensorflow.core.util.saved_tensor_slice_pb2",
    "tensorflow.compiler.xla.tsl.protobuf.distributed_runtime_payloads_pb2",
]
ARRAYS = [
    np.array(values).astype(kind)
    for kind in (
        *("f2", "f4", "f8", ml_dtypes.bfloat16, "c8", "c16", "?"),
        *("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    )
    for values in (1, [1], [0, 1, 3], [[0, 1], [1, 1]], np.zeros((0, 2)))
]
STRINGS = [np.array(b"a", object), np.array([b"", b"a\0", "é".encode()], object), np.zeros((0,), object)]


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return pytest.importorskip("tensorflow")


def field_facts(field: Any) -> tuple[Any, ...]:
    named = field.message_type or field.enum_type
    of = named.full_name.split(".", 1)[1] if named and not named.full_name.startswith("google.") else named
    of = getattr(of, "full_name", of)
    of = of and of.removeprefix(INNER)
    oneof = field.containing_oneof.name if field.containing_oneof else None
    return field.name, field.number, field.type, field.is_repeated, field.is_packed, oneof, of


def differences(ours: Any, theirs: Any, path: str) -> list[str]:
    mine = {field_facts(f) for f in ours.fields if f"{path}.{f.name}" != "ConfigProto.aioexec"}
    other = {field_facts(f) for f in theirs.fields if f"{path}.{f.name}" not in LEFT_OUT}
    found = [f"{path}: {sorted(mine ^ other, key=str)}"] if mine ^ other else []
    for nested in ours.nested_types:
        found += differences(nested, theirs.nested_types_by_name[nested.name], f"{path}.{nested.name}")
    for enum in ours.enum_types:
        if numbers(enum) != numbers(theirs.enum_types_by_name[enum.name]):
            found.append(f"{path}.{enum.name}")
    return found


def numbers(enum: Any) -> dict[str, int]:
    return {value.name: value.number for value in enum.values if not value.name.startswith("DO_NOT_USE")}


def test_each_message_and_enum_is_declared_as_in_tensorflow(tf):
    for module in UNLOADED:
        importlib.import_module(module)
    pool = descriptor_pool.Default()

    found = []
    for name in sorted(set(protos.__all__) - OURS_ALONE):
        ours = getattr(protos, name).DESCRIPTOR
        full_name = ELSEWHERE.get(name) or ours.full_name.replace("aioexec", "tensorflow", 1)
        if name.endswith(SERVICE):
            continue
        if hasattr(ours, "values_by_number"):
            if numbers(ours) != numbers(pool.FindEnumTypeByName(full_name)):
                found.append(name)
        else:
            found += differences(ours, pool.FindMessageTypeByName(full_name), name)

    assert found == []


def test_a_meta_graph_of_tensorflow_goes_through_ours_byte_for_byte(tf):
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        w = tf.compat.v1.get_variable("w", [3, 2], use_resource=False)
        b = tf.compat.v1.get_variable("b", [2], use_resource=True)
        loss = tf.reduce_mean(tf.nn.softmax(tf.matmul(x, w) + b))
        tf.compat.v1.train.AdamOptimizer().minimize(loss)
        tf.compat.v1.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        tf.compat.v1.train.Saver()
        theirs = tf.compat.v1.train.export_meta_graph()
    data = theirs.SerializeToString(deterministic=True)

    ours = protos.MetaGraphDef.FromString(data)

    assert ours.SerializeToString(deterministic=True) == data
    assert [node.name for node in ours.graph_def.node] == [node.name for node in theirs.graph_def.node]
    placeholder = next(node for node in ours.graph_def.node if node.name == "x")
    assert shape_from_proto(placeholder.attr["shape"].shape) == (None, 3)


def test_config_and_metadata_go_through_ours_byte_for_byte(tf):
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1.0])
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=3, output_partition_graphs=True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.random.uniform([2, 2])
        session.run(tf.matmul(x, x), options=options, run_metadata=metadata)

    for theirs in (config, metadata):
        data = theirs.SerializeToString(deterministic=True)
        ours = getattr(protos, theirs.DESCRIPTOR.name).FromString(data)
        assert str(ours) == str(theirs)
        assert ours.SerializeToString(deterministic=True) == data


def test_tensorflow_accepts_a_config_with_our_options(tf):
    config = protos.ConfigProto(intra_op_parallelism_threads=3)
    config.aioexec.jit = "off"

    theirs = tf.compat.v1.ConfigProto.FromString(config.SerializeToString())

    assert theirs.intra_op_parallelism_threads == 3
    assert protos.ConfigProto.FromString(theirs.SerializeToString()) == config


@pytest.mark.parametrize("array", [*ARRAYS, *STRINGS], ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_values_are_written_as_tensorflow_writes_them_and_read_back_by_it(array, tf):
    ours = encode_tensor(array, "string" if array.dtype.hasobject else None)
    data = ours.SerializeToString(deterministic=True)
    theirs = tf.compat.v1.make_tensor_proto(array, "string" if array.dtype.hasobject else None)

    assert data == theirs.SerializeToString(deterministic=True)
    np.testing.assert_array_equal(tf.make_ndarray(type(theirs).FromString(data)), array)
    np.testing.assert_array_equal(decode_tensor(protos.TensorProto.FromString(data)), array)


@pytest.mark.parametrize("array", [*ARRAYS, *STRINGS], ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_values_serialised_by_the_cpp_runtime_are_read(array, tf):
    constant = tf.constant(array, "string" if array.dtype.hasobject else None)
    data = tf.io.serialize_tensor(constant).numpy()

    decoded = decode_tensor(protos.TensorProto.FromString(data))

    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize(
    ("values", "shape"), [([2.0], [3]), ([2.0, 5.0], [3]), ([1, 2, 3], [2, 2]), (["a"], [2])]
)
def test_short_lists_mean_the_same_to_the_cpp_runtime(values, shape, tf):
    proto = make_tensor_proto(values, shape=shape)

    theirs = tf.io.parse_tensor(proto.SerializeToString(), proto.dtype).numpy()

    np.testing.assert_array_equal(theirs, decode_tensor(proto))
