"""SaveSliceInfo: the slice of a larger variable that a variable holds, for checkpoints."""

from __future__ import annotations

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class SaveSliceInfo:
    """A slice of the variable `full_name` of shape `full_shape`: offset and shape."""

    full_name: str
    full_shape: list[int]
    var_offset: list[int]
    var_shape: list[int]

    @property
    def spec(self) -> str:
        """The slice in the form of save and restore ops: "full shape offset,size:offset,size"."""
        sizes = " ".join(map(str, self.full_shape))
        parts = zip(self.var_offset, self.var_shape, strict=True)
        return f"{sizes} {':'.join(f'{offset},{size}' for offset, size in parts)}"
