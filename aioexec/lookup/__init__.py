"""Lookup tables under the names of `tf.lookup`."""

from __future__ import annotations

from aioexec.lookup import experimental as experimental
from aioexec.ops.lookup.lookup_tables import StaticHashTable as StaticHashTable
from aioexec.ops.lookup.table_initializers import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
    TextFileIndex as TextFileIndex,
    TextFileInitializer as TextFileInitializer,
)
from aioexec.ops.lookup.vocabularies import StaticVocabularyTable as StaticVocabularyTable
