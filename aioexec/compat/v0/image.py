"""`tf.image` of TensorFlow 0.x: `aioexec.image`, and what 1.0 renamed or gave other arguments."""

from __future__ import annotations

import sys
from typing import Any

from aioexec.graph.node import Tensor
from aioexec.ops.image import functions


def resize_images(
    images: Any, new_height: Any, new_width: Any, method: Any = 0, align_corners: bool = False
) -> Tensor:
    """Resize images: `image.resize_images(images, [new_height, new_width], method)` since 1.0."""
    return functions.resize_images(images, [new_height, new_width], method, align_corners)


def per_image_whitening(image: Any) -> Tensor:
    """Shift and scale an image to mean 0 and variance 1: `image.per_image_standardization` since 1.0."""
    return functions.per_image_standardization(image)


def __getattr__(name: str) -> Any:
    """Return a name of `aioexec.image`."""
    return getattr(sys.modules["aioexec"].image, name)
