"""`served`: a model on a free port of this machine, with a client."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import FailedPreconditionError
from aioexec.graph.defaults import get_default_session
from aioexec.graph.node import Tensor


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is served, and a client of it.

    Attributes:
        url: of the server.
        name: the model's.
        client: a `serving.PredictionClient`, connected to it.
    """

    url: str
    name: str
    client: Any

    async def predict(self, instances: list[Any]) -> list[Any]:
        """Return a prediction for each instance, over HTTP."""
        predictions: list[Any] = await self.client.predict(instances)
        return predictions


@asynccontextmanager
async def served(
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    *,
    session: Any = None,
    name: str = "default",
    **options: Any,
) -> AsyncIterator[ServedModel]:
    """Serve a model in the block, on a free port of the loopback interface.

    Args:
        inputs, outputs: the tensors of its signature, by the names in requests.
        session: what runs it; by default the default session.
        options: of `serving.serve`.

    Raises:
        FailedPreconditionError: there is no session.
    """
    from aioexec.serving import PredictionClient, serve  # needs aiohttp

    session = session or get_default_session()
    if session is None:
        raise FailedPreconditionError("served: there is no default session: pass one as `session`")
    async with (
        serve(session, inputs, outputs, name=name, **options) as server,
        PredictionClient(server.predict_url) as client,
    ):
        yield ServedModel(server.url, name, client)
