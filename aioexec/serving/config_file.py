"""Reads a server's configuration from a TOML file:

poll_seconds = 5.0              # between two looks at the folders of models

[models.digits]
path = "models/digits"          # relative to the file; its subfolders 1, 2, … are versions
versions = {latest = 2}         # or "all", or [3, 7]; the newest one by default
labels = {stable = 3}
warm = true                     # run each signature with zeros before it takes requests
batching = {max_batch_size = 64, max_delay = 0.001, max_queue = 1024, buckets = [1, 8, 64]}

[server]                        # as the options of the command, which take precedence
host = "0.0.0.0"
port = 8501
grpc_port = 8500
tls_cert = "server.pem"
tls_key = "server.key"
tls_ca = "clients.pem"
token_file = "token"
insecure = false
grace = 10.0

[limits]
json_bytes = 1048576
request_bytes = 16777216
requests = 1024
bytes_under_way = 268435456
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.serving.limits import Limits
from aioexec.serving.models.model_config import Batching, ModelConfig
from aioexec.serving.models.version_policy import All, Latest, Specific, VersionPolicy
from aioexec.serving.repository import POLL_SECONDS

Table = Mapping[str, Any]

_FILE: Final = {"poll_seconds": (int, float), "models": (dict,), "server": (dict,), "limits": (dict,)}
_SERVER: Final = {
    "host": (str,),
    "port": (int,),
    "grpc_port": (int,),
    "tls_cert": (str,),
    "tls_key": (str,),
    "tls_ca": (str,),
    "token_file": (str,),
    "insecure": (bool,),
    "grace": (int, float),
}
_FILES: Final = ("tls_cert", "tls_key", "tls_ca", "token_file")
_LIMITS: Final = dict.fromkeys(("json_bytes", "request_bytes", "requests", "bytes_under_way"), (int,))
_MODEL: Final = {
    "path": (str,),
    "versions": (str, dict, list),
    "labels": (dict,),
    "warm": (bool,),
    "batching": (dict,),
}
_BATCHING: Final = {
    "max_batch_size": (int,),
    "max_delay": (int, float),
    "max_queue": (int,),
    "buckets": (list,),
}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What a file says: the models, the options of the command that it sets, the limits."""

    models: tuple[ModelConfig, ...]
    options: Mapping[str, Any]
    limits: Limits
    poll_seconds: float


def read_config(path: str) -> ServerConfig:
    """Read a file. Blocks.

    Raises:
        NotFoundError: it cannot be read.
        InvalidArgumentError: it is not TOML, or says something else than expected.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(f"configuration {path!r}: {error}") from error
    try:
        return _config(tomllib.loads(text), os.path.dirname(path))
    except (tomllib.TOMLDecodeError, InvalidArgumentError) as error:
        raise InvalidArgumentError(f"configuration {path!r}: {error}") from error


def _config(table: Table, folder: str) -> ServerConfig:
    _check("the file", table, _FILE)
    options, limits = table.get("server", {}), table.get("limits", {})
    _check("[server]", options, _SERVER)
    _check("[limits]", limits, _LIMITS)
    models = [_model(name, model, folder) for name, model in table.get("models", {}).items()]
    poll_seconds = float(table.get("poll_seconds", POLL_SECONDS))
    if not 0 < poll_seconds < float("inf"):
        raise InvalidArgumentError(f"poll_seconds must be positive, got {poll_seconds!r}")
    options = {name: _joined(folder, value) if name in _FILES else value for name, value in options.items()}
    return ServerConfig(tuple(models), options, Limits(**limits), poll_seconds)


def _model(name: str, table: Any, folder: str) -> ModelConfig:
    where = f"[models.{name}]"
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"{where}: expected a table, got {table!r}")
    _check(where, table, _MODEL)
    if "path" not in table:
        raise InvalidArgumentError(f"{where}: expected a path")
    labels = table.get("labels", {})
    if not all(type(version) is int for version in labels.values()):
        raise InvalidArgumentError(f"{where}: expected a version's number for each label, got {labels!r}")
    return ModelConfig(
        name,
        _joined(folder, table["path"]),
        _policy(where, table.get("versions", {"latest": 1})),
        labels,
        None if "batching" not in table else _batching(where, table["batching"]),
        table.get("warm", True),
    )


def _policy(where: str, versions: Any) -> VersionPolicy:
    match versions:
        case "all":
            return All()
        case {"latest": int(count), **others} if count > 0 and not others:
            return Latest(count)
        case [*_] if versions and all(type(version) is int and version >= 0 for version in versions):
            return Specific(frozenset(versions))
    raise InvalidArgumentError(
        f"{where}: versions must be 'all', {{latest = 2}} or a list of versions, got {versions!r}"
    )


def _batching(where: str, table: Table) -> Batching:
    _check(f"{where} batching", table, _BATCHING)
    missing = [name for name in ("max_batch_size", "max_delay", "max_queue") if name not in table]
    if missing:
        raise InvalidArgumentError(f"{where} batching: expected {missing} too")
    buckets = table.get("buckets")
    return Batching(
        table["max_batch_size"],
        float(table["max_delay"]),
        table["max_queue"],
        None if buckets is None else tuple(buckets),
    )


def _check(where: str, table: Table, expected: Mapping[str, tuple[type, ...]]) -> None:
    """Raise InvalidArgumentError if a table has another key or type than expected."""
    for name, value in table.items():
        if name not in expected:
            raise InvalidArgumentError(f"{where}: unknown key {name!r}, expected {sorted(expected)}")
        kinds = expected[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InvalidArgumentError(f"{where}: {name} must be a {kinds[-1].__name__}, got {value!r}")


def _joined(folder: str, path: str) -> str:
    return os.path.join(folder, path)
