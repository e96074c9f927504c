"""String ops under the names of `tf.strings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.strings.formats import string_format as format
    from aioexec.ops.strings.functions import (
        reduce_join as reduce_join,
        string_join as join,
        string_length as length,
        string_lower as lower,
        string_split_v2 as split,
        string_strip as strip,
        string_upper as upper,
        substr as substr,
        unsorted_segment_join as unsorted_segment_join,
    )
    from aioexec.ops.strings.numbers import (
        as_string as as_string,
        string_to_hash_bucket as to_hash_bucket,
        string_to_hash_bucket_fast as to_hash_bucket_fast,
        string_to_hash_bucket_strong as to_hash_bucket_strong,
        string_to_number as to_number,
    )
    from aioexec.ops.strings.regular_expressions import (
        regex_full_match as regex_full_match,
        regex_replace as regex_replace,
    )

    __all__ = [
        "as_string", "format", "join", "length", "lower", "reduce_join", "regex_full_match", "regex_replace", "split",
        "strip", "substr", "to_hash_bucket", "to_hash_bucket_fast", "to_hash_bucket_strong", "to_number",
        "unsorted_segment_join", "upper",
    ]  # fmt: skip
else:
    __getattr__, __dir__ = public_names(__name__)
