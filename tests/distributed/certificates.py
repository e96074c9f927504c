"""Certificates for tests, made by the `openssl` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Authority:
    """Signs certificates for this machine's loopback addresses; its files are in a directory of its own."""

    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "ca.pem"

    def signed(self, name: str) -> tuple[Path, Path]:
        """A new certificate and its key."""
        certificate, key, request = (self.directory / f"{name}.{end}" for end in ("pem", "key", "csr"))
        names = "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost"
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}", "-addext", names)
        ca = ("-CA", self.certificate, "-CAkey", self.directory / "ca.key", "-CAcreateserial")
        _openssl(
            "x509", "-req", "-in", request, *ca, "-copy_extensions", "copy", "-days", "2", "-out", certificate
        )
        return certificate, key


def make_authority(directory: Path) -> Authority:
    """A new authority, which no other process trusts."""
    directory.mkdir()
    authority = Authority(directory)
    _openssl(
        "req", "-x509", *_NEW_KEY, "-keyout", directory / "ca.key", "-out", authority.certificate,
        "-subj", f"/CN={directory.name}", "-days", "2",
    )  # fmt: skip
    return authority


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
