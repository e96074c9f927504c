"""The names of TensorFlow's private modules that programs use."""

from __future__ import annotations

import glob
import os

import numpy as np
import pytest

import aioexec as ax
from aioexec import gen_ops
from aioexec.errors import GraphTypeError
from aioexec.formats.protos import Event
from aioexec.python import control_flow_ops, pywrap_tensorflow, rnn, rnn_cell, rnn_cell_impl, summary_io
from aioexec.train.off_loop import off_loop
from tests.ops.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def names() -> list[str]:
    return [variable.op.name for variable in ax.global_variables()]


def test_an_op_takes_its_inputs_and_attributes_by_position():
    summary = gen_ops._image_summary("tag", ax.zeros([1, 2, 2, 1]), 1)
    total = gen_ops.sum([[1.0, 2.0]], 1, True, name="total")

    assert (summary.op.type, summary.op.get_attr("max_images")) == ("ImageSummary", 1)
    assert (total.op.name, total.op.type) == ("total", "Sum")
    np.testing.assert_array_equal(evaluate(total), [[3.0]])
    np.testing.assert_array_equal(evaluate(gen_ops.select([True, False], [1, 2], [3, 4])), [1, 4])


def test_an_op_of_another_name_or_number_of_arguments_is_an_error():
    with pytest.raises(AttributeError, match="no such op"):
        gen_ops.no_such_op
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        gen_ops.add_v2(1)
    with pytest.raises(GraphTypeError, match="float32"):
        gen_ops.add_v2(ax.constant(1.0), ax.constant(1))


async def test_a_value_takes_the_branch_of_its_predicate():
    switched = control_flow_ops.switch(ax.constant(3), ax.constant(True))
    merged = control_flow_ops.merge([switched[0] + 1, switched[1] * 2])
    chosen = control_flow_ops.cond(ax.constant(True), lambda: 1, lambda: 2)

    async with ax.Session() as session:
        assert await session.run([merged[0], merged[1], chosen]) == [6, 1, 1]


def test_the_products_of_cells_have_the_variables_of_their_versions():
    inputs = [ax.ones([2, 3]), ax.ones([2, 1])]
    with ax.variable_scope("new"):
        rnn_cell_impl._linear(inputs, 5, True)
    old = rnn_cell._linear(inputs, 5, True, bias_start=1.0, scope="Old")
    one = rnn_cell._linear(inputs[0], 5, False)

    assert names() == ["new/kernel", "new/bias", "Old/Matrix", "Old/Bias", "Linear/Matrix"]
    assert [old.shape.as_list(), one.shape.as_list()] == [[2, 5], [2, 5]]


def test_a_state_of_zeros_has_the_structure_of_its_sizes():
    zeros = rnn_cell_impl._zero_state_tensors((2, ax.TensorShape([3])), 4, ax.float32)

    assert [part.shape.as_list() for part in zeros] == [[4, 2], [4, 3]]
    assert rnn_cell_impl._concat(4, [3]) == [4, 3]
    rnn_cell_impl.assert_like_rnncell("cell", rnn_cell_impl.BasicRNNCell(2))
    with pytest.raises(GraphTypeError, match="is not an RNNCell"):
        rnn_cell_impl.assert_like_rnncell("cell", 3)


def test_names_of_several_versions_are_the_same_objects():
    assert rnn.bidirectional_rnn is ax.nn.static_bidirectional_rnn
    assert rnn_cell.LSTMStateTuple is ax.contrib.rnn.rnn_cell.LSTMStateTuple is ax.nn.rnn_cell.LSTMStateTuple
    assert summary_io.SummaryWriterCache is ax.summary.FileWriterCache
    assert ax.math.divide_no_nan is ax.div_no_nan


async def test_events_are_written_to_a_file_with_the_given_name(tmp_path):
    writer = pywrap_tensorflow.EventsWriter(os.fsencode(tmp_path / "mine"))

    writer.WriteEvent(Event(step=3))
    await writer.Flush()
    await writer.Close()

    (path,) = await off_loop(glob.glob, f"{tmp_path}/*tfevents*.mine")
    events = await off_loop(lambda: list(ax.train.summary_iterator(path)))
    assert events[-1].step == 3
