"""Mutable lookup tables under the names of `tf.lookup.experimental`."""

from __future__ import annotations

from aioexec.ops.lookup.lookup_tables import (
    DenseHashTable as DenseHashTable,
    MutableHashTable as MutableHashTable,
)
