"""Lookup tables under the names of `tf.lookup`."""

from __future__ import annotations

from aioexec.lookup import experimental as experimental
from aioexec.ops.lookup_tables import StaticHashTable as StaticHashTable
from aioexec.ops.table_initializers import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
    TextFileIndex as TextFileIndex,
    TextFileInitializer as TextFileInitializer,
)
from aioexec.ops.vocabularies import StaticVocabularyTable as StaticVocabularyTable
