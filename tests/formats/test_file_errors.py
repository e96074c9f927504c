"""Errors of files: the error class for each errno, by TensorFlow's table."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aioexec import errors
from aioexec.formats.file_errors import canonical


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (1, "ECANCELED"),
        (2, "EIO ELOOP EBADMSG EIDRM EINPROGRESS ENOEXEC ENOMSG EPROTO EREMOTE EUCLEAN"),
        (3, "EINVAL ENAMETOOLONG E2BIG EDESTADDRREQ EDOM EFAULT EILSEQ ENOPROTOOPT ENOTSOCK ENOTTY EPROTOTYPE ESPIPE"),
        (4, "ETIMEDOUT ETIME"),
        (5, "ENODEV ENOENT ENXIO ESRCH"),
        (6, "EEXIST EADDRNOTAVAIL EALREADY"),
        (7, "EPERM EACCES EROFS"),
        (8, "ENOSPC EDQUOT EMFILE EMLINK ENFILE ENOBUFS ENODATA ENOMEM ENOSR EUSERS"),
        (9, "ENOTEMPTY EISDIR ENOTDIR EADDRINUSE EBADF EBUSY ECHILD EISCONN ENOTBLK ENOTCONN EPIPE ESHUTDOWN ETXTBSY"),
        (10, "EDEADLK ESTALE"),
        (11, "EFBIG EOVERFLOW ERANGE"),
        (12, "ENOSYS ENOTSUP EAFNOSUPPORT EPFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EXDEV"),
        (14, "EAGAIN ECONNREFUSED ECONNABORTED ECONNRESET EINTR EHOSTDOWN EHOSTUNREACH ENETDOWN ENETRESET ENETUNREACH"),
        (14, "ENOLCK ENOLINK"),
    ],
)  # fmt: skip
def test_a_number_has_the_class_it_has_in_tensorflow(code: int, names: str):
    for name in names.split():
        number = getattr(errno, name, None)
        if number is not None:
            found = canonical("a/b", OSError(number, os.strerror(number)))
            assert (name, found.error_code) == (name, code)
            assert found.message == f"a/b; {os.strerror(number)}"


def test_exceptions_without_a_number_have_the_class_of_their_kind():
    assert type(canonical("a", FileNotFoundError("gone"))) is errors.NotFoundError
    assert type(canonical("a", ValueError("embedded null byte"))) is errors.InvalidArgumentError
    assert type(canonical("a", MemoryError())) is errors.ResourceExhaustedError
    assert type(canonical(b"a\xff", OSError("what?"))) is errors.UnknownError


WRITES = """
import asyncio, sys
import aioexec as ax

async def main():
    node = ax.write_file(sys.argv[1], "x" * 5000)
    async with ax.Session() as session:
        try:
            await session.run(node)
        except ax.errors.OpError as error:
            print(type(error).__name__)

asyncio.run(main())
"""


def _limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.slow
def test_a_file_that_gets_too_large_is_out_of_range(tmp_path: Path):
    found = subprocess.run(
        [sys.executable, "-c", WRITES, str(tmp_path / "big")],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=_limit_files,
    )

    assert found.stdout == "OutOfRangeError\n", found.stderr
