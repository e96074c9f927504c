"""`served`: a model on a free port of this machine, with a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aioexec.data_classes import dataclass
from aioexec.errors import FailedPreconditionError
from aioexec.graph.defaults import get_default_session
from aioexec.graph.node import Tensor

if TYPE_CHECKING:
    from aioexec.saved_model.loaded_model import LoadedModel
    from aioexec.saved_model.signature import Signature
    from aioexec.serving import PredictionClient, Server


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is served, by its name, and a client of it."""

    server: Server
    name: str
    client: PredictionClient

    @property
    def url(self) -> str:
        """The server's URL, for other clients."""
        return self.server.url

    async def predict(self, instances: list[Any]) -> list[Any]:
        """Return a prediction for each instance, over HTTP."""
        return await self.client.predict(instances)


@asynccontextmanager
async def served(
    model: LoadedModel | Signature | None = None,
    *,
    inputs: Mapping[str, Tensor] | None = None,
    outputs: Mapping[str, Tensor] | None = None,
    session: Any = None,
    name: str = "default",
    **options: Any,
) -> AsyncIterator[ServedModel]:
    """Serve a model in the block, on a free port of the loopback interface.

    Args:
        model: a loaded model or a signature.
        inputs, outputs: instead of a model, tensors by their names in requests.
        session: what runs these tensors; by default the default session.
        options: of `serving.serve`.

    Raises:
        FailedPreconditionError: there is neither a model nor a default session.
    """
    from aioexec.saved_model.signature import Signature
    from aioexec.serving import PredictionClient, serve  # needs aiohttp

    if model is None:
        session = session or get_default_session()
        if session is None:
            raise FailedPreconditionError("served: there is no default session: pass one as `session`")
        model = Signature("serving_default", inputs or {}, outputs or {}, session)
    async with (
        serve({name: model}, **options) as server,
        PredictionClient(server.predict_url(name)) as client,
    ):
        yield ServedModel(server, name, client)
