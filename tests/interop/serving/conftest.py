"""A model that TensorFlow wrote, served over HTTP and gRPC, and clients in processes of their own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aioexec.saved_model.loaded_model import load
from aioexec.serving import Server, serve
from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.interop.serving.tf_model import write_model

Client = Callable[..., Awaitable[Any]]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def folder(tf: Any, tmp_path_factory: Any) -> Path:
    """The model's folder."""
    path: Path = tmp_path_factory.mktemp("models") / "1"
    write_model(tf, path)
    return path


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Server]:
    """A server of the model "model"."""
    async with await load(folder) as model, serve({"model": model}, grpc_port=0) as server:
        yield server


@pytest.fixture
def client() -> Client:
    """Runs a module of this folder in a process, and returns the JSON that it prints last."""

    async def run(module: str, *arguments: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"tests.interop.serving.{module}",
            *arguments,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()[-4000:]
        return json.loads(output.splitlines()[-1])

    return run
