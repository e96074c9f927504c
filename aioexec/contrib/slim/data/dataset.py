"""The description of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Dataset:
    """Where a data set is, and how it is read and decoded.

    Args:
        data_sources: a file, a pattern, or a list of them.
        reader: the class of its reader, such as TFRecordReader.
        decoder: a DataDecoder.
        num_samples: the number of samples.
        items_to_descriptions: a description for each item of a sample.
        kwargs: further attributes.
    """

    def __init__(
        self,
        data_sources: Any,
        reader: Any,
        decoder: Any,
        num_samples: int | None,
        items_to_descriptions: Mapping[str, str] | None,
        **kwargs: Any,
    ) -> None:
        kwargs["data_sources"] = data_sources
        kwargs["reader"] = reader
        kwargs["decoder"] = decoder
        kwargs["num_samples"] = num_samples
        kwargs["items_to_descriptions"] = items_to_descriptions
        self.__dict__.update(kwargs)

    def __getattr__(self, name: str) -> Any:
        """Reached only for names that are no attributes: declares to type checkers that any may be one."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
