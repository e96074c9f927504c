"""Files and folders under the names of `tf.io.gfile`; every call blocks until the file system has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.files.gfile_class import GFile as GFile
    from aioexec.files.operations import (
        copy as copy,
        exists as exists,
        get_registered_schemes as get_registered_schemes,
        glob as glob,
        isdir as isdir,
        join as join,
        listdir as listdir,
        makedirs as makedirs,
        mkdir as mkdir,
        remove as remove,
        rename as rename,
        rmtree as rmtree,
        stat as stat,
        walk as walk,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
