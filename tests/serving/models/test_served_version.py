"""A version runs requests through its batcher, with a share of the batches for each caller."""

import asyncio
from types import SimpleNamespace

import aioexec as ax
from aioexec.serving.models.model_config import Batching
from aioexec.serving.models.served_version import ServedVersion
from tests.serving.signatures import Fake

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None], name="x")


async def test_a_caller_with_many_requests_does_not_delay_another_one():
    order = []

    def compute(x):
        order.extend(x.tolist())
        return {"y": x}

    model = SimpleNamespace(signatures={"serving_default": Fake({"x": X}, {"y": X}, compute)})
    served = ServedVersion("model", 1, model, batching=Batching(1, 0.0, 100))
    requests = [("many", [float(n)]) for n in range(10)] + [("few", [99.0])]

    await asyncio.gather(*(served.run("serving_default", {"x": x}, caller=caller) for caller, x in requests))
    await served.close()

    assert sorted(order) == [*map(float, range(10)), 99.0]
    assert order.index(99.0) < 5
