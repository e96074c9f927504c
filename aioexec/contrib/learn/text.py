"""VocabularyProcessor and ByteProcessor: documents as vectors of numbers of equal length."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Self

import numpy as np

from aioexec.contrib.learn.vocabulary import CategoricalVocabulary

TOKENIZER_RE: Final = re.compile(
    r"""
      [A-Z]{2,} (?![a-z])    # capitals, but not the first letter of a word
    | [A-Z][a-z]+ (?=[A-Z])  # a word that another one follows
    | ['\w-]+                # any other
    """,
    re.VERBOSE,
)

Vector = np.ndarray[Any, Any]


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each document; words of capital letters and those written together are parted."""
    for value in iterator:
        yield TOKENIZER_RE.findall(value)


class VocabularyProcessor:
    """Documents as the numbers of their words.

    Args:
        max_document_length: the length of the vectors; longer documents are cut, shorter ones end with zeros.
        min_frequency: words that occur so often or less often are unknown.
        vocabulary: a CategoricalVocabulary; a new one by default.
        tokenizer_fn: from documents to their words.

    State: `vocabulary_` has the words.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[Any]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = CategoricalVocabulary() if vocabulary is None else vocabulary
        self._tokenizer = tokenizer if tokenizer_fn is None else tokenizer_fn

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> Self:
        """Add the words of documents to the vocabulary, and freeze it."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Vector]:
        """Call `fit`, then `transform`; the documents are iterated twice."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Vector]:
        """The vector of each document, int64 [max_document_length]; unknown words are 0."""
        for words in self._tokenizer(raw_documents):
            ids = np.zeros(self.max_document_length, np.int64)
            for place, word in enumerate(words):
                if place >= self.max_document_length:
                    break
                ids[place] = self.vocabulary_.get(word)
            yield ids

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """The words of each vector, parted by spaces."""
        for ids in documents:
            yield " ".join(self.vocabulary_.reverse(each) for each in ids)

    def save(self, filename: str) -> None:
        """Write the processor to a file, as a pickle. Blocks."""
        with open(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> Self:
        """Read a processor that `save` has written; unpickling runs code that the file names, so it must be trusted. Blocks."""
        with open(filename, "rb") as file:
            found: Self = pickle.loads(file.read())
        return found


class ByteProcessor:
    """Documents as the bytes of their UTF-8 encoding.

    Args:
        max_document_length: the length of the vectors; longer documents are cut, shorter ones end with zeros.
    """

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> Self:
        """Nothing is learned."""
        return self

    def fit_transform(self, x: Iterable[str | bytes]) -> Iterator[Vector]:
        """The same as `transform`."""
        return self.transform(x)

    def transform(self, x: Iterable[str | bytes]) -> Iterator[Vector]:
        """The vector of each document, uint8 [max_document_length]."""
        for document in x:
            text = document.encode() if isinstance(document, str) else document
            found = np.frombuffer(text[: self.max_document_length], np.uint8)
            yield np.pad(found, (0, self.max_document_length - len(found)))

    @staticmethod
    def reverse(x: Iterable[Vector]) -> Iterator[str]:
        """The text of each vector, without the zeros at its end."""
        for data in x:
            yield np.asarray(data, np.uint8).tobytes().rstrip(b"\0").decode()
