"""OptionalValue: the value of a variant tensor of the Optional ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.tensor_list import Array, added, zeros_like
from aioexec.shapes import Dims, compatible, shown


@dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
    """An optional; `components` are its tensors, None if it has no value. They are not modified."""

    components: tuple[Array, ...] | None

    def checked(self, expected: list[tuple[DType, Dims]]) -> tuple[Array, ...]:
        """Return the components, which must have these dtypes and shapes.

        Raises:
            InvalidArgumentError: there is no value, or dtypes or shapes differ.
        """
        if self.components is None:
            raise InvalidArgumentError("The given optional does not have a value.")
        if len(self.components) != len(expected):
            raise InvalidArgumentError(
                f"The given optional has {len(self.components)} components, expected {len(expected)}"
            )
        for k, (component, (dtype, dims)) in enumerate(zip(self.components, expected, strict=True)):
            if component.dtype != dtype.numpy:
                raise InvalidArgumentError(
                    f"The given optional does not match the expected type for component {k}. "
                    f"Expected: {dtype.name}. Actual: {component.dtype}."
                )
            if not compatible(component.shape, dims):
                raise InvalidArgumentError(
                    f"The given optional does not match the expected shape for component {k}. "
                    f"Expected: {shown(dims)}. Actual: {shown(component.shape)}."
                )
        return self.components

    def zeros_like(self) -> OptionalValue:
        return OptionalValue(self.components and tuple(map(zeros_like, self.components)))

    def plus(self, other: OptionalValue) -> OptionalValue:
        """Return the component-wise sum of two optionals."""
        if self.components is None and other.components is None:
            return self
        if self.components is None or other.components is None:
            raise InvalidArgumentError("Cannot add optionals because one has a value and the other doesn't.")
        if len(self.components) != len(other.components):
            raise InvalidArgumentError(
                f"Cannot add optionals because they have different numbers of components "
                f"({len(self.components)} vs. {len(other.components)})"
            )
        pairs = zip(self.components, other.components, strict=True)
        return OptionalValue(tuple(added(one, two) for one, two in pairs))


def optional_in(variant: Any, op_type: str) -> OptionalValue:
    """Return the optional in a scalar variant tensor.

    Raises:
        InvalidArgumentError: the tensor holds something else.
    """
    if isinstance(variant, np.ndarray):
        if variant.ndim:
            raise InvalidArgumentError(
                f"Input to {op_type} must be a scalar tensor containing an OptionalVariant object."
            )
        variant = variant.item()
    if not isinstance(variant, OptionalValue):
        raise InvalidArgumentError(f"Input to {op_type} must be an OptionalVariant object.")
    return variant
