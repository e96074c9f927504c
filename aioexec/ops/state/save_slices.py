"""Which part of a larger variable a variable holds, as checkpoints have it."""

from __future__ import annotations

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class SaveSliceInfo:
    """A part of the variable `full_name` of shape `full_shape`: where it begins, and its shape."""

    full_name: str
    full_shape: list[int]
    var_offset: list[int]
    var_shape: list[int]

    @property
    def spec(self) -> str:
        """The part as a save or restore node has it: "full shape offset,size:offset,size"."""
        sizes = " ".join(map(str, self.full_shape))
        parts = zip(self.var_offset, self.var_shape, strict=True)
        return f"{sizes} {':'.join(f'{offset},{size}' for offset, size in parts)}"
