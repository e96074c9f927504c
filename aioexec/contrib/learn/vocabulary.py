"""CategoricalVocabulary: numbers for categories, in the order in which they are met."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aioexec.errors import GraphValueError


class CategoricalVocabulary:
    """The numbers of categories; 0 is that of all unknown ones.

    Args:
        unknown_token: what `reverse` returns for 0.
        support_reverse: whether `reverse` can be called.

    State: `_mapping` has the number of each category, `_reverse_mapping` the category of each number, `_freq` how often each
    was added. `_freeze`: whether new categories are unknown.
    """

    def __init__(self, unknown_token: Any = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token = unknown_token
        self._support_reverse = support_reverse
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._reverse_mapping: list[Any] = [unknown_token]
        self._freq: Counter[Any] = Counter()
        self._freeze = False

    def __len__(self) -> int:
        """The number of categories, the unknown one included."""
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Make new categories unknown, or with False number them again."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """The number of a category; a new one gets the next number, or 0 if the vocabulary is frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Count a category; unknown ones are not counted."""
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep the categories that were added more often than `min_frequency`, and less often than `max_frequency`.

        They are numbered again by falling frequency, those of one frequency in alphabetical order.

        Args:
            max_frequency: not positive: no limit.
        """
        ordered = sorted(
            self._freq.items(), key=lambda entry: (-entry[1], isinstance(entry[0], str), entry[0])
        )
        kept = [
            (category, count)
            for category, count in ordered
            if count > min_frequency and (max_frequency <= 0 or count < max_frequency)
        ]
        self._freq = Counter(dict(kept))
        self._reverse_mapping = [self._unknown_token, *(category for category, _ in kept)]
        self._mapping = {category: number for number, category in enumerate(self._reverse_mapping)}

    def reverse(self, class_id: int) -> Any:
        """The category of a number.

        Raises:
            GraphValueError: `support_reverse` is False.
        """
        if not self._support_reverse:
            raise GraphValueError(
                "This vocabulary wasn't initialized with support_reverse to support reverse() function."
            )
        return self._reverse_mapping[class_id]
