"""Networks for images under the names of `tf.contrib.slim.nets`, with TensorFlow's names of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.slim.nets import (
        alexnet as alexnet,
        inception as inception,
        overfeat as overfeat,
        resnet_utils as resnet_utils,
        resnet_v1 as resnet_v1,
        resnet_v2 as resnet_v2,
        vgg as vgg,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
