"""The options of commands that listen: files for TLS and the token, with defaults from the environment, and `--insecure`."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from aioexec.distributed.security.security import (
    CA_VARIABLE,
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    TOKEN_VARIABLE,
    Security,
)

_FILES = (
    ("tls_cert", CERTIFICATE_VARIABLE, "PEM file of this server's certificate"),
    ("tls_key", KEY_VARIABLE, "PEM file of its key"),
    ("tls_ca", CA_VARIABLE, "PEM file of the certificates that sign those of clients, which then need one"),
    ("token_file", TOKEN_VARIABLE, "file with the token that every caller must know"),
)
"""Options that name a file, the environment variable with the default, and the file's content."""


def add_security_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    for name, variable, meaning in _FILES:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, metavar="FILE", help=f"{meaning} (or {variable})")
    parser.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="accept every caller, from other machines too, with neither certificate nor token",
    )


def security_of(arguments: argparse.Namespace, settings: Mapping[str, Any] | None = None) -> Security:
    """Read the files: named on the command line, else in `settings` of a configuration file, else in the environment.

    Raises:
        OpError: see `Security.from_files`.
    """
    settings = settings or {}

    def chosen(name: str, default: Any) -> Any:
        given = getattr(arguments, name)
        return settings.get(name, default) if given is None else given

    files = [chosen(name, os.environ.get(variable) or None) for name, variable, _ in _FILES]
    return Security.from_files(*files, insecure=chosen("insecure", False))
