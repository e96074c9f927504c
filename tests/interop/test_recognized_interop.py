"""In the graphs that TensorFlow writes, computations of several nodes are recognised."""

import pytest

from aioexec.planning.recognition import input_products
from tests.interop import graphs_recognized as graphs
from tests.interop.comparing import Recorder, imported
from tests.planning.recognized import count, planned

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Products move however small they are."""
    monkeypatch.setattr(input_products, "LEAST_STATE_ELEMENTS", 0)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (graphs.encoder_layers, {"_Attention": 2, "_LayerNorm": 4, "Transpose": 0, "Mean": 0}),
        (graphs.decoder_layer, {"_Attention": 1, "_LayerNorm": 2, "Transpose": 0, "Mean": 0}),
        (graphs.attention_with_gradients, {"_Attention": 0, "_LayerNorm": 0}),
        (graphs.lstm, {"BatchMatMulV2": 1, "ConcatV2": 0, "TensorArrayReadV3": 0}),
        (graphs.lstm_of_functions, {"BatchMatMulV2": 1, "ConcatV2": 0, "TensorListGetItem": 0}),
        (graphs.gru, {"BatchMatMulV2": 2, "ConcatV2": 0}),
    ],
)
def test_the_nodes_of_a_plan_are_those_expected(recorder: Recorder, build, expected):
    recorded = recorder.record(build)
    graph = imported(recorded.graph_def)
    fetches, feeds = (
        [graph.get_tensor_by_name(name) for name in names] for names in (recorded.fetches, recorded.feeds[0])
    )

    made = planned(fetches, feeds)

    assert {op_type: count(made, op_type) for op_type in expected} == expected
