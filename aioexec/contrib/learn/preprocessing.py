"""Text as numbers, under the names of `tf.contrib.learn.preprocessing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn.text import (
        ByteProcessor as ByteProcessor,
        VocabularyProcessor as VocabularyProcessor,
        tokenizer as tokenizer,
    )
    from aioexec.contrib.learn.vocabulary import CategoricalVocabulary as CategoricalVocabulary
else:
    __getattr__, __dir__ = public_names(__name__)
