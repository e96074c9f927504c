"""The folder in which Keras keeps data sets."""

from __future__ import annotations

import os

from aioexec.errors import NotFoundError


def cached(path: str, source: str) -> str:
    """The path of a file, absolute or in `~/.keras/datasets`.

    Args:
        source: where the file can be had, for the message.

    Raises:
        NotFoundError: it is not there.
    """
    base = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    found = os.path.join(base, "datasets", path)
    if not os.path.exists(found):
        raise NotFoundError(
            f"{found!r} does not exist, and data sets are not downloaded; get it from {source}"
        )
    return found
