"""The peer of `bench.http_serving`: `python -m bench.http_servers` prints its URL and serves the MLP until it is killed.

It is what a program writes by hand: aiohttp on uvloop, and onnxruntime in a thread; requests that arrive while it runs are its
next batch. It answers the two requests of the benchmark, and checks nothing.
"""

import asyncio
import json
from typing import Any

import numpy as np
from aiohttp import web

from bench import mlp
from bench.sessions import Array

MODEL = "mlp"
BATCH = 64
LENGTH_HEADER = "Inference-Header-Content-Length"


class MicroBatcher:
    """Joins the requests that wait whenever the model is free."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._waiting: list[tuple[Array, asyncio.Future[Array]]] = []
        self._arrived = asyncio.Event()

    async def run(self, rows: Array) -> Array:
        """Return the outputs of rows."""
        answer: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, answer))
        self._arrived.set()
        return await answer

    async def serve(self) -> None:
        """Run batches, until cancelled."""
        while True:
            await self._arrived.wait()
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            if not self._waiting:
                self._arrived.clear()
            x = np.concatenate([rows for rows, _ in batch])
            (y,) = await asyncio.to_thread(self._session.run, None, {"x": x})
            start = 0
            for rows, answer in batch:
                if not answer.done():
                    answer.set_result(y[start : start + len(rows)])
                start += len(rows)


async def main() -> None:
    """Serve until cancelled."""
    batcher = MicroBatcher(mlp.onnxruntime_session())

    async def predict(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        y = await batcher.run(np.array(body["instances"], np.float32))
        reply = json.dumps({"predictions": y.tolist()}).encode()
        return web.Response(body=reply, content_type="application/json")

    async def infer(request: web.Request) -> web.Response:
        length, body = int(request.headers[LENGTH_HEADER]), await request.read()
        (x,) = json.loads(body[:length])["inputs"]
        y = await batcher.run(np.frombuffer(body, np.float32, offset=length).reshape(x["shape"]))
        output = {
            "name": "y",
            "datatype": "FP32",
            "shape": y.shape,
            "parameters": {"binary_data_size": y.nbytes},
        }
        head = json.dumps({"model_name": MODEL, "model_version": "1", "outputs": [output]}).encode()
        headers = {LENGTH_HEADER: str(len(head))}
        return web.Response(body=head + y.tobytes(), headers=headers, content_type="application/octet-stream")

    app = web.Application()
    app.router.add_post(f"/v1/models/{MODEL}:predict", predict)
    app.router.add_post(f"/v2/models/{MODEL}/infer", infer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    print(f"http://{host}:{port}", flush=True)
    await batcher.serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
