"""`PredictionClient`: requests predictions of a model server, ours or TensorFlow Serving, over one persistent connection."""

import json
import reprlib
from types import TracebackType
from typing import Any, Self

import aiohttp

from aioexec.errors import FailedPreconditionError, UnavailableError
from aioexec.serving.http_status import error_of


class PredictionClient:
    """A client of a model server; used with `async with`.

    async with PredictionClient(server.predict_url) as client:
        [prediction] = await client.predict([[0.1, 0.2]])

    Args:
        predict_url: of the model's predictions.
        timeout: seconds a request may take.
    """

    def __init__(self, predict_url: str, *, timeout: float = 30.0) -> None:
        self._url = predict_url
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._http: aiohttp.ClientSession | None = None  # None outside `async with`

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            http, self._http = self._http, None
            await http.close()

    async def predict(self, instances: list[Any]) -> list[Any]:
        """Return a prediction for each instance.

        Raises:
            OpError: the server's error, of the class for its HTTP status.
            UnavailableError: the server cannot be reached, or took too long.
        """
        if self._http is None:
            raise FailedPreconditionError("PredictionClient: use it inside `async with`")
        try:
            async with self._http.post(self._url, json={"instances": instances}) as response:
                status, text = response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError(f"{self._url}: {str(error) or type(error).__name__}") from error
        return _predictions(status, text)


def _predictions(status: int, text: str) -> list[Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if status == 200 and isinstance(answer, dict) and isinstance(answer.get("predictions"), list):
        predictions: list[Any] = answer["predictions"]
        return predictions
    message = answer["error"] if isinstance(answer, dict) and "error" in answer else reprlib.repr(text)
    raise error_of(status)(f"HTTP status {status}: {message}")
