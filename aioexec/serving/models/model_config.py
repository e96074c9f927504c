"""What to serve of a model folder: its versions, labels and batching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from aioexec.batching.options import bucket_sizes, check_limits
from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.serving.models.version_policy import Latest, VersionPolicy


@dataclass(frozen=True, slots=True)
class Batching:
    """How requests are joined; the arguments of `aioexec.batching.Batcher`."""

    max_batch_size: int
    max_delay: float
    max_queue: int
    buckets: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_limits(self.max_batch_size, self.max_delay, self.max_queue)
        bucket_sizes(self.max_batch_size, self.buckets)

    @property
    def sizes(self) -> list[int]:
        """The numbers of rows that steps have."""
        return bucket_sizes(self.max_batch_size, self.buckets)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model to serve from a folder.

    Attributes:
        name: by which requests name it; without "/" and ":".
        path: a folder with a SavedModel for each version, in subfolders "1", "2" and so on; or one SavedModel, served as
            version 1.
        policy: which versions are served.
        labels: versions by label, for requests that name a label.
        batching: how requests are joined, None if they are not.
        is_warmed: whether each signature runs with zeros before the version takes requests.
    """

    name: str
    path: str
    policy: VersionPolicy = Latest(1)
    labels: Mapping[str, int] = field(default_factory=dict)
    batching: Batching | None = None
    is_warmed: bool = True

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable() or set(self.name) & set("/:"):
            raise InvalidArgumentError(
                f"a model's name must be printable, without '/' and ':', got {self.name!r}"
            )
