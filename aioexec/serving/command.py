"""`aioexec serve`: serves SavedModels over HTTP as a process until a signal ends it.

SIGTERM or SIGINT drains the server: it is "not ready", further predictions are refused, those under way may finish for a while,
exit status 0. A second signal ends it at once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Any, Final

from aioexec.command_line.arguments import add_examples, add_json, seconds
from aioexec.command_line.output import print_json_line
from aioexec.command_line.signals import EndSignal
from aioexec.data_classes import dataclass
from aioexec.distributed.security.options import add_security_options, security_of
from aioexec.distributed.security.security import Security
from aioexec.errors import InvalidArgumentError
from aioexec.saved_model.loaded_model import load
from aioexec.serving.config_file import ServerConfig, read_config
from aioexec.serving.limits import Limits
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.repository import POLL_SECONDS, Repository
from aioexec.serving.server import Server, serve
from aioexec.serving.telemetry.logs import logs_on_stderr

try:
    from uvloop import new_event_loop
except ImportError:  # not available on Windows
    from asyncio import new_event_loop  # type: ignore[assignment]

_DEFAULTS: Final[Mapping[str, Any]] = {"host": "127.0.0.1", "port": 8501, "grace": 10.0}

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--model",
        metavar="NAME=PATH",
        type=_model,
        action="append",
        default=[],
        help="a SavedModel, or a folder with one for each version in 1, 2 and so on, of which the newest is served; "
        "may be given several times",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a TOML file with models, their versions, labels and batching; see docs/guide/serving.md",
    )
    parser.add_argument(
        "--host", help="address to listen at (default: 127.0.0.1); others need a token or certificates"
    )
    parser.add_argument("--port", type=_port, help="port to listen at (default: 8501); 0 is any that is free")
    parser.add_argument(
        "--grpc-port", type=_port, help="port of gRPC (default: no gRPC); 0 is any that is free"
    )
    add_security_options(parser)
    parser.add_argument(
        "--grace", type=seconds, help="seconds that requests have to end after SIGTERM (default: 10)"
    )
    parser.add_argument(
        "--log", choices=("text", "json"), default="text", help="the format of logs on stderr (default: text)"
    )
    parser.add_argument("--log-requests", action="store_true", help="log each request too")
    add_json(parser)
    add_examples(
        parser,
        """
one model on this machine, then a prediction
aioexec serve --model digits=exports/digits
curl -d '{"instances": [[1, 2]]}' http://127.0.0.1:8501/v1/models/digits:predict
several, with versions, labels and batching
aioexec serve --config models.toml
on a network, for clients that know a token
aioexec serve --model digits=exports/digits --host 0.0.0.0 --tls-cert server.pem --tls-key server.key --token-file token
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal arrives; return 0 after a clean end."""
    settings = _settings(arguments)
    logs = logs_on_stderr(as_json=arguments.log == "json", with_requests=arguments.log_requests)
    with logs, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(settings, as_json=arguments.json))
    return 0


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options with what the file and the environment say."""

    config: ServerConfig
    host: str
    port: int
    grpc_port: int | None
    security: Security
    grace: float


def _settings(arguments: argparse.Namespace) -> _Settings:
    """Merge the options: the command line first, then the file, then the environment.

    Raises:
        InvalidArgumentError: there is no model, or two have one name.
        OpError: a file cannot be read.
    """
    file = read_config(arguments.config) if arguments.config else ServerConfig((), {}, Limits(), POLL_SECONDS)
    config = ServerConfig((*file.models, *arguments.model), file.options, file.limits, file.poll_seconds)
    if not config.models:
        raise InvalidArgumentError("expected a model: give --model NAME=PATH, or --config FILE")

    def option(name: str) -> Any:
        given = getattr(arguments, name)
        return config.options.get(name, _DEFAULTS.get(name)) if given is None else given

    security = security_of(arguments, config.options)
    return _Settings(config, option("host"), option("port"), option("grpc_port"), security, option("grace"))


async def _serve(settings: _Settings, *, as_json: bool) -> None:
    config = settings.config
    async with (
        Repository.watching(config.models, load, poll_seconds=config.poll_seconds) as repository,
        serve(
            repository,
            host=settings.host,
            port=settings.port,
            grpc_port=settings.grpc_port,
            security=settings.security,
            limits=config.limits,
            grace=settings.grace,
        ) as server,
    ):
        end = EndSignal()
        _announce(server, as_json=as_json)
        await end.wait()
        server.drain()
        _log.info("ending: requests have %g s", settings.grace)
    _log.info("ended")


def _announce(server: Server, *, as_json: bool) -> None:
    names = server.repository.names()
    if as_json:
        grpc = None if server.grpc is None else server.grpc.address
        print_json_line({"url": server.url, "grpc": grpc, "models": names, "pid": os.getpid()})
    else:
        grpc = "" if server.grpc is None else f", gRPC at {server.grpc.address}"
        print(f"serving {', '.join(names)} at {server.url}{grpc}", flush=True)


def _model(text: str) -> ModelConfig:
    name, separator, path = text.partition("=")
    if not separator or not path:
        raise argparse.ArgumentTypeError(f"expected NAME=PATH, got {text!r}")
    try:
        return ModelConfig(name, path)
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, got {text!r}")
    return int(text)
