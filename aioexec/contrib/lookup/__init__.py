"""Lookup tables and vocabularies under the names of `tf.contrib.lookup`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.lookup.functions import (
        index_table_from_tensor as index_table_from_tensor,
        index_to_string as index_to_string,
        index_to_string_table_from_tensor as index_to_string_table_from_tensor,
        string_to_index as string_to_index,
        string_to_index_table_from_file as string_to_index_table_from_file,
        string_to_index_table_from_tensor as string_to_index_table_from_tensor,
    )
    from aioexec.ops.lookup.lookup_tables import (
        DenseHashTable as MutableDenseHashTable,
        HashTable as HashTable,
        InitializableLookupTableBase as InitializableLookupTableBase,
        LookupInterface as LookupInterface,
        MutableHashTable as MutableHashTable,
    )
    from aioexec.ops.lookup.table_initializers import (
        KeyValueTensorInitializer as KeyValueTensorInitializer,
        TableInitializerBase as TableInitializerBase,
        TextFileIdTableInitializer as TextFileIdTableInitializer,
        TextFileIndex as TextFileIndex,
        TextFileInitializer as TextFileInitializer,
        TextFileStringTableInitializer as TextFileStringTableInitializer,
    )
    from aioexec.ops.lookup.vocabularies import (
        FastHashSpec as FastHashSpec,
        HasherSpec as HasherSpec,
        IdTableWithHashBuckets as IdTableWithHashBuckets,
        StrongHashSpec as StrongHashSpec,
        index_table_from_file as index_table_from_file,
        index_to_string_table_from_file as index_to_string_table_from_file,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
