"""Names and numbers of the protos, compared with bytes written by TensorFlow or by hand."""

import subprocess
import sys

import pytest
from google.protobuf.message import Message

from aioexec.formats import protos
from aioexec.formats.protos import (
    AttrValue,
    BundleEntryProto,
    BundleHeaderProto,
    CheckpointState,
    Code,
    CollectionDef,
    ConfigProto,
    DataType,
    DeviceAttributes,
    Event,
    FunctionDef,
    GraphDef,
    MetaGraphDef,
    NodeDef,
    NodeExecStats,
    OpDef,
    ResourceHandleProto,
    RunMetadata,
    RunOptions,
    RunStepRequest,
    SaverDef,
    ServerDef,
    SignatureDef,
    Summary,
    TensorProto,
    TensorShapeProto,
    VariableDef,
)

# A graph as TensorFlow 2.21 serialised it: x = placeholder(float, [None, 2]); y = x + 1.0
GRAPH_BY_TENSORFLOW = bytes.fromhex(
    "0a3b0a0178120b506c616365686f6c6465722a0b0a056474797065120230012a1c0a05736861706512133a11120b08ffffffffffffff"
    "ffff01120208020a300a03792f791205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a0400"
    "00803f0a1b0a0179120541646456321a01781a03792f792a070a015412023001220308aa13"
)
SHAPE = TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)])
FLOAT = DataType.DT_FLOAT

# Message and the bytes of it, each field as: key (number * 8 + wire type), length if any, content.
GOLDEN = [
    (TensorProto(dtype=FLOAT, tensor_shape=SHAPE, float_val=[1.0]), "0801 1204 1202 0802 2a04 0000803f"),
    (TensorProto(dtype=FLOAT, tensor_content=b"\0\0\0\0"), "0801 2204 00000000"),
    (TensorProto(half_val=[1]), "6a01 01"),
    (TensorProto(string_val=[b"a", b"bc"]), "4201 61 4202 6263"),
    (TensorProto(uint64_val=[1]), "8a01 01 01"),
    (TensorShapeProto(unknown_rank=True), "1801"),
    (AttrValue(s=b"a"), "1201 61"),
    (AttrValue(i=1), "1801"),
    (AttrValue(f=1.0), "25 0000803f"),
    (AttrValue(b=True), "2801"),
    (AttrValue(type=FLOAT), "3001"),
    (AttrValue(shape=SHAPE), "3a04 1202 0802"),
    (AttrValue(placeholder="T"), "4a01 54"),
    (AttrValue(list=AttrValue.ListValue(i=[1, 2])), "0a04 1a02 0102"),
    (NodeDef(name="a", op="b", input=["c"], device="d"), "0a01 61 1201 62 1a01 63 2201 64"),
    (OpDef(name="a", is_stateful=True, is_aggregate=True), "0a01 61 8001 01 8801 01"),
    (OpDef.ArgDef(name="a", type_attr="T", number_attr="N", is_ref=True), "0a01 61 2201 54 2a01 4e 8001 01"),
    (OpDef.AttrDef(name="a", type="int", has_minimum=True, minimum=1), "0a01 61 1203 696e74 2801 3001"),
    (FunctionDef(ret={"a": "b"}), "2206 0a01 61 1201 62"),
    (ResourceHandleProto(device="a", container="b", name="c", hash_code=1), "0a01 61 1201 62 1a01 63 2001"),
    (DeviceAttributes(name="a", device_type="b", memory_limit=1), "0a01 61 1201 62 2001"),
    (DeviceAttributes(incarnation=1), "31 0100000000000000"),
    (NodeExecStats(node_name="a", all_start_micros=1, timeline_label="b"), "0a01 61 1001 4201 62"),
    (RunOptions(trace_level=RunOptions.FULL_TRACE, timeout_in_ms=5), "0803 1005"),
    (RunOptions(output_partition_graphs=True), "2801"),
    (RunMetadata(partition_graphs=[GraphDef()]), "1a00"),
    (ConfigProto(device_count={"CPU": 1}), "0a07 0a03 435055 1001"),
    (ConfigProto(allow_soft_placement=True, log_device_placement=True), "3801 4001"),
    (ConfigProto(inter_op_parallelism_threads=2, operation_timeout_in_ms=3), "2802 5803"),
    (ServerDef(job_name="a", task_index=1, protocol="grpc"), "1201 61 1801 2a04 67727063"),
    (SaverDef(filename_tensor_name="a", restore_op_name="b", max_to_keep=5), "0a01 61 1a01 62 2005"),
    (SaverDef(version=SaverDef.V2), "3802"),
    (VariableDef(variable_name="a", is_resource=True, trainable=True), "0a01 61 2801 3801"),
    (CollectionDef(node_list=CollectionDef.NodeList(value=["a"])), "0a03 0a01 61"),
    (SignatureDef(method_name="a"), "1a01 61"),
    (MetaGraphDef(graph_def=GraphDef(), saver_def=SaverDef()), "1200 1a00"),
    (BundleHeaderProto(num_shards=1, version={"producer": 1}), "0801 1a02 0801"),
    (BundleEntryProto(dtype=FLOAT, offset=1, size=4, crc32c=1), "0801 2001 2804 35 01000000"),
    (CheckpointState(model_checkpoint_path="a", all_model_checkpoint_paths=["b"]), "0a01 61 1201 62"),
    (Summary(value=[Summary.Value(tag="a", simple_value=1.0)]), "0a08 0a01 61 15 0000803f"),
    (Event(wall_time=0.5, step=3, file_version="a"), "09 000000000000e03f 1003 1a01 61"),
    (
        RunStepRequest(session_handle="a", fetch=["b"], target=["c"], request_id=1),
        "0a01 61 1a01 62 2201 63 4001",
    ),
]


@pytest.mark.parametrize(
    ("message", "expected"), GOLDEN, ids=[f"{type(m).__name__}-{i}" for i, (m, _) in enumerate(GOLDEN)]
)
def test_a_message_has_the_bytes_its_field_numbers_say(message: Message, expected: str):
    data = bytes.fromhex(expected.replace(" ", ""))

    assert message.SerializeToString(deterministic=True) == data
    assert type(message).FromString(data) == message


def test_a_graph_written_by_tensorflow_is_read_and_written_back_byte_for_byte():
    graph = GraphDef.FromString(GRAPH_BY_TENSORFLOW)

    assert [(node.name, node.op, list(node.input)) for node in graph.node] == [
        ("x", "Placeholder", []),
        ("y/y", "Const", []),
        ("y", "AddV2", ["x", "y/y"]),
    ]
    assert [dim.size for dim in graph.node[0].attr["shape"].shape.dim] == [-1, 2]
    assert list(graph.node[1].attr["value"].tensor.float_val) == [1.0]
    assert graph.versions.producer == 2474
    assert graph.SerializeToString(deterministic=True) == GRAPH_BY_TENSORFLOW


def test_our_options_are_field_50000_of_config_proto():
    config = ConfigProto()
    config.aioexec.jit = "off"
    config.aioexec.max_steps_in_flight = 2
    config.aioexec.arena_bytes = 3
    config.aioexec.refuse_when_busy = True

    assert config.SerializeToString() == bytes.fromhex(
        "82b518 0b 0a03 6f6666 1002 1803 2001".replace(" ", "")
    )


def test_fields_that_are_not_declared_here_survive():
    debug_info = bytes.fromhex("2a03 0a01 61".replace(" ", ""))  # GraphDef.debug_info = 5 {files: "a"}

    assert GraphDef.FromString(debug_info).SerializeToString() == debug_info


def test_enum_values_have_the_numbers_of_the_wire():
    assert (DataType.DT_FLOAT, DataType.DT_STRING, DataType.DT_HALF, DataType.DT_FLOAT_REF) == (1, 7, 19, 101)
    assert (Code.OK, Code.CANCELLED, Code.UNAUTHENTICATED, Code.DATA_LOSS) == (0, 1, 16, 15)


def test_every_message_is_exported_and_lives_in_the_package_of_its_own():
    for name in protos.__all__:
        descriptor = getattr(protos, name).DESCRIPTOR
        assert descriptor.full_name in (f"aioexec.{name}", f"aioexec.error.{name}")
        assert descriptor.file.name.startswith("aioexec/formats/protos/")
        for other in descriptor.file.message_types_by_name:
            assert other in protos.__all__


@pytest.mark.slow
def test_importing_the_protos_loads_neither_grpc_nor_tensorflow():
    code = "import sys, aioexec.formats.protos; print(sorted({'grpc', 'tensorflow'} & set(sys.modules)))"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"
