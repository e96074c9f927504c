"""Paths as programs give them: text, bytes or path-like objects, with or without the scheme `file://`."""

from __future__ import annotations

import os
import re
from typing import Final

from aioexec.errors import UnimplementedError

Path = str | bytes | os.PathLike[str]

SCHEMES: Final = ("", "file")
"""The schemes of file systems: none, and that of local files."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")


def text_of(path: Path) -> str:
    """Return a path as text, with its scheme."""
    return os.fsdecode(path)


def scheme_of(path: str) -> str:
    """Return the scheme with its separator, as `file://`; "" if there is none."""
    found = _SCHEME.match(path)
    return found.group() if found else ""


def local_path(path: Path) -> str:
    """Return the path of a local file without its scheme.

    Raises:
        UnimplementedError: the scheme is that of another file system.
    """
    text = text_of(path)
    scheme = scheme_of(text)
    if scheme.removesuffix("://") not in SCHEMES:
        raise UnimplementedError(
            f"File system scheme '{scheme.removesuffix('://')}' not implemented (file: '{text}')"
        )
    rest = text.removeprefix(scheme)
    if scheme and not rest.startswith("/"):  # file://host/path: the host is this one
        rest = "/" + rest.partition("/")[2]
    return rest
