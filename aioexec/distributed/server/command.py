"""`aioexec server`: runs one task of a cluster as a process until a signal ends it.

SIGTERM or SIGINT drains the server: new sessions are refused, steps under way may finish for a while, exit status 0. A second
signal ends it at once.
"""

import argparse
import asyncio
import json
import logging
import sys
from typing import Any

from aioexec.command_line.arguments import add_examples, add_json, seconds
from aioexec.command_line.output import print_json_line
from aioexec.command_line.signals import EndSignal
from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.distributed.cluster.cluster_resolver import VARIABLE, TFConfigClusterResolver
from aioexec.distributed.security.options import add_security_options, security_of
from aioexec.distributed.security.security import Security
from aioexec.distributed.server.server import Server
from aioexec.errors import InvalidArgumentError, OpError

try:
    from uvloop import new_event_loop
except ImportError:  # not available on Windows
    from asyncio import new_event_loop  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_GRACE = 10.0
_LOG = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--cluster",
        type=_cluster,
        help="'ps=host:port,host:port;worker=host:port', or such a thing as JSON; "
        f"by default what {VARIABLE} says. Port 0 is any that is free",
    )
    parser.add_argument("--job", help="the job of this server; may be left out where there is one only")
    parser.add_argument("--task", type=int, help="its index in the job; likewise")
    parser.add_argument(
        "--listen",
        metavar="HOST",
        help="listen there instead of at the address in the cluster: 0.0.0.0 for all of this machine",
    )
    parser.add_argument("--config", type=_config, help="a ConfigProto, as text or JSON")
    add_security_options(parser)
    parser.add_argument(
        "--grace",
        type=seconds,
        default=_GRACE,
        help="seconds that steps have to end after SIGTERM (default: %(default)g)",
    )
    add_json(parser)
    add_examples(
        parser,
        """
a parameter server and a worker on this machine, each in a terminal of its own
aioexec server --cluster 'ps=localhost:2222;worker=localhost:2223' --job ps --task 0
aioexec server --cluster 'ps=localhost:2222;worker=localhost:2223' --job worker --task 0
one task on any free port; the first line says where
aioexec server --cluster worker=localhost:0 --json
on a network, with a certificate for each machine
aioexec server --listen 0.0.0.0 --tls-cert node.pem --tls-key node.key --tls-ca ca.pem
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal arrives; returns 0 after a clean end, 1 if it could not serve."""
    logging.basicConfig(level=logging.INFO, format=_LOG, stream=sys.stderr)
    security = security_of(arguments)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(arguments, security))
    return 0


async def _serve(arguments: argparse.Namespace, security: Security) -> None:
    resolver = TFConfigClusterResolver(arguments.job, arguments.task)
    of_environment = arguments.cluster is None
    cluster = resolver.cluster_spec() if of_environment else arguments.cluster
    if not cluster:
        raise InvalidArgumentError(f"expected a cluster: give --cluster, or set {VARIABLE}")
    server = Server(
        cluster,
        resolver.task_type if of_environment else arguments.job,
        resolver.task_id if of_environment else arguments.task,
        config=arguments.config,
        start=False,
        listen=arguments.listen,
        security=security,
    )
    try:
        await _wait_until_signalled(server, as_json=arguments.json)
        logger.info("ending: steps have %g s", arguments.grace)
    finally:
        await server.stop(arguments.grace)
    logger.info("ended")


async def _wait_until_signalled(server: Server, *, as_json: bool) -> None:
    """Serve until a signal arrives; the next one ends the process at once."""
    end = EndSignal()
    await server.serve()
    devices = [device.name for device in server.devices.list_devices()]
    if as_json:
        print_json_line({"target": server.target, "task": server.task, "devices": devices})
    else:
        print(f"{server.target} serves {server.task} with {', '.join(devices)}", flush=True)
    await end.wait()


def _cluster(text: str) -> ClusterSpec:
    try:
        return ClusterSpec(json.loads(text) if text.lstrip().startswith("{") else _jobs(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    except OpError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.message}") from error


def _jobs(text: str) -> dict[str, list[str]]:
    jobs: dict[str, list[str]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, equals, addresses = part.partition("=")
        if not (name.strip() and equals) or name.strip() in jobs:
            raise ValueError(f"expected job=host:port,host:port once for each job, got {part!r}")
        jobs[name.strip()] = [address.strip() for address in addresses.split(",")]
    return jobs


def _config(text: str) -> Any:
    from google.protobuf import json_format, text_format

    from aioexec.formats.protos import ConfigProto

    try:
        if text.lstrip().startswith("{"):
            return json_format.Parse(text, ConfigProto())
        return text_format.Parse(text, ConfigProto())
    except (json_format.ParseError, text_format.ParseError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no ConfigProto: {error}") from error
