"""Access control between processes: certificates, tokens, and which addresses need them.

A process has one `Security` for both its roles. With a certificate its listeners speak TLS, and its channels present the
certificate on request; with `ca` both roles demand that the other side's certificate was signed by it; with a token every
caller must know it. Without any of these a process listens at loopback addresses only, and admits only processes of its own
user and of root (`peer_users`).
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
import ssl
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from aioexec.data_classes import dataclass
from aioexec.distributed.security.proofs import authorization_of_call
from aioexec.errors import FailedPreconditionError, GraphValueError

CERTIFICATE_VARIABLE = "AIOEXEC_TLS_CERT"
KEY_VARIABLE = "AIOEXEC_TLS_KEY"
CA_VARIABLE = "AIOEXEC_TLS_CA"
TOKEN_VARIABLE = "AIOEXEC_TOKEN_FILE"

_BEARER = "Bearer "
_MOST_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Security:
    """The protection of connections, from PEM texts; `from_files` and `from_environment` read them.

    Attributes:
        certificate, key: of this process, in PEM form; both or neither. With them listeners use TLS.
        ca: the trusted CA certificates, in PEM form. With it channels use TLS, and listeners require a client certificate
            signed by it; without it, channels of a process that has a certificate trust the system's CAs.
        token: every caller must have it. Over TLS calls carry it; without TLS they prove its possession (`proofs`).
        insecure: listen on any address and admit every client, even without certificate and token.
    """

    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    ca: bytes | None = None
    token: str | None = field(default=None, repr=False)
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise GraphValueError("Security: expected certificate and key, got only one of them")
        if self.token is not None and not _is_token(self.token):
            raise GraphValueError("Security: expected a token of printable ASCII characters, got another")

    @classmethod
    def from_files(
        cls,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        token: str | os.PathLike[str] | None = None,
        *,
        insecure: bool = False,
    ) -> Security:
        """Read PEM files, and a file with the token. Blocks: on an event loop, call it in a thread.

        Raises:
            FailedPreconditionError: a file that cannot be read, or is malformed; a token file that other users may read.
        """
        held = None if token is None else _read(token, "token").decode("ascii", "replace").strip()
        if held is not None and not _is_token(held):
            raise FailedPreconditionError(f"token file {os.fspath(token or '')!r}: expected printable ASCII")
        security = cls(
            certificate=None if certificate is None else _read(certificate, "certificate"),
            key=None if key is None else _read(key, "key"),
            ca=None if ca is None else _read(ca, "CA"),
            token=held,
            insecure=insecure,
        )
        _check_fit(security, {"certificate": certificate, "key": key, "CA": ca})
        return security

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, *, insecure: bool = False
    ) -> Security:
        """Read the files named by AIOEXEC_TLS_CERT, _KEY and _CA and AIOEXEC_TOKEN_FILE, if they are set.

        Blocks if any is set: on an event loop, call it in a thread.

        Raises:
            FailedPreconditionError: a file that cannot be read, or is malformed.
        """
        variables = (CERTIFICATE_VARIABLE, KEY_VARIABLE, CA_VARIABLE, TOKEN_VARIABLE)
        return cls.from_files(*(environment.get(name) or None for name in variables), insecure=insecure)

    @property
    def serves_tls(self) -> bool:
        """Whether listeners use TLS."""
        return self.certificate is not None

    @property
    def calls_tls(self) -> bool:
        """Whether channels use TLS."""
        return self.certificate is not None or self.ca is not None

    @property
    def trusts_all_users(self) -> bool:
        """Whether listeners admit processes of every user of this machine, since these present a token or a certificate."""
        return self.insecure or self.token is not None or (self.serves_tls and self.ca is not None)

    def authorization(self, path: str) -> str | None:
        """The metadata `authorization` of a call of a method."""
        if self.token is None:
            return None
        return _BEARER + self.token if self.calls_tls else authorization_of_call(self.token, path)

    def is_token_of(self, authorization: str) -> bool:
        """Whether this metadata `authorization` is the token itself, in constant time."""
        return self.token is not None and hmac.compare_digest(
            authorization.encode(), (_BEARER + self.token).encode()
        )

    def check_listening(self, address: str) -> None:
        """Raise FailedPreconditionError if these settings are too weak for a listener at "host:port"."""
        if self.insecure or self.token is not None or is_loopback(address):
            return
        if self.serves_tls and self.ca is not None:
            return
        raise FailedPreconditionError(
            f"listening at {address}: it can be reached from other machines, and anyone there could run anything. Set "
            f"{TOKEN_VARIABLE}, or {CERTIFICATE_VARIABLE}, {KEY_VARIABLE} and {CA_VARIABLE}; or listen at 127.0.0.1 or [::1]; "
            "or say insecure=True (--insecure) if the network itself is protected"
        )

    def listening_context(self) -> ssl.SSLContext | None:
        """The SSLContext of listening sockets, None without TLS. Blocks: on an event loop, call it in a thread."""
        if not self.serves_tls:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(context)
        if self.ca is not None:
            context.load_verify_locations(cadata=self.ca.decode("ascii"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def calling_context(self) -> ssl.SSLContext | None:
        """The SSLContext of connecting sockets, None without TLS. Blocks: on an event loop, call it in a thread."""
        if not self.calls_tls:
            return None
        context = ssl.create_default_context(cadata=None if self.ca is None else self.ca.decode("ascii"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as before Python 3.13, and as gRPC verifies
        if self.certificate is not None:
            self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        """Load certificate and key into an SSLContext, which reads files only: through a private temporary file."""
        assert self.certificate is not None
        assert self.key is not None
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.certificate.strip() + b"\n" + self.key)
            file.flush()
            context.load_cert_chain(file.name)


def is_loopback(address: str) -> bool:
    """Whether "host:port" is reachable from this machine only.

    `localhost` and names below it count if all their present addresses are loopback addresses; no other name counts. May block
    for the name lookup.
    """
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]").lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        found = addresses_of(host)
        return bool(found) and all(map(_is_loopback, found))
    return _is_loopback(host)


def addresses_of(host: str) -> list[str]:
    """The numeric addresses of a host; none if it is unknown. May block for the name lookup."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def _is_loopback(text: str) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (mapped is not None and mapped.is_loopback)


def _check_fit(security: Security, paths: Mapping[str, str | os.PathLike[str] | None]) -> None:
    try:
        security.listening_context()
        security.calling_context()
    except (ssl.SSLError, ValueError) as error:
        files = ", ".join(f"{what} {os.fspath(path)!r}" for what, path in paths.items() if path is not None)
        raise FailedPreconditionError(f"{files}: expected PEM files that fit each other: {error}") from error


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()


def _read(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise FailedPreconditionError(
            f"{what} file {os.fspath(path)!r}: {error.strerror or error}"
        ) from error
    if what == "token" and stat.S_ISREG(mode) and mode & stat.S_IROTH:
        raise FailedPreconditionError(
            f"token file {os.fspath(path)!r}: every user of this machine may read it; chmod 600 it, and change the token"
        )
    if not content.strip() or len(content) > _MOST_FILE_BYTES:
        raise FailedPreconditionError(
            f"{what} file {os.fspath(path)!r}: expected 1 to {_MOST_FILE_BYTES} bytes, got {len(content)}"
        )
    return content
