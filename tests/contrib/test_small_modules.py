"""Small modules of contrib: reductions over devices, bfloat16 scopes, cross entropies of 0.x."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.formats.protos import ConfigProto

nccl = ax.contrib.nccl


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def on_devices() -> list[ax.Tensor]:
    values = []
    for index in range(2):
        with ax.device(f"/cpu:{index}"):
            values.append(ax.constant([2.0 + index, 5.0 - index]))
    return values


async def test_each_device_gets_the_reduction():
    values = on_devices()
    results = [reduction(values) for reduction in (nccl.all_sum, nccl.all_prod, nccl.all_min, nccl.all_max)]
    one = nccl.broadcast(nccl.reduce_sum(values))
    gradients = ax.gradients(results[0], values)

    async with ax.Session(config=ConfigProto(device_count={"CPU": 2})) as session:
        found, total, slopes = await session.run([results, one, gradients])

    np.testing.assert_array_equal([pair[0] for pair in found], [[5, 9], [6, 20], [2, 4], [3, 5]])
    np.testing.assert_array_equal([pair[0] for pair in found], [pair[1] for pair in found])
    np.testing.assert_array_equal(total, [5, 9])
    np.testing.assert_array_equal(slopes, [[2, 2], [2, 2]])
    assert [each.device for each in results[0]] == [each.device for each in values]


def test_nothing_to_reduce_is_an_error():
    with pytest.raises(GraphValueError, match="Must pass >0 tensors"):
        nccl.all_sum([])


def test_variables_of_a_bfloat16_scope_are_kept_as_float32():
    with ax.tpu.bfloat16_scope():
        read = ax.get_variable("v", [2], ax.bfloat16)
        other = ax.get_variable("w", [2], ax.float32)

    assert [(each.op.name, each.dtype.base_dtype) for each in ax.global_variables()] == [
        ("v", ax.float32),
        ("w", ax.float32),
    ]
    assert (read.dtype, other.dtype.base_dtype) == (ax.bfloat16, ax.float32)
    assert ax.contrib.tpu.bfloat16_scope is ax.tpu.bfloat16_scope


async def test_flipped_cross_entropies_take_logits_first():
    logits, labels = ax.constant([[1.0, 2.0]]), ax.constant([[0.0, 1.0]])
    flipped = ax.contrib.nn.deprecated_flipped_softmax_cross_entropy_with_logits(logits, labels)
    expected = np.log(1 + np.exp(-1.0))

    async with ax.Session() as session:
        np.testing.assert_allclose(await session.run(flipped), [expected], rtol=1e-6)
