"""The Inception networks under the names of `tf.contrib.slim.nets.inception`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.slim.nets.inception_v1 import (
        inception_v1 as inception_v1,
        inception_v1_arg_scope as inception_v1_arg_scope,
        inception_v1_base as inception_v1_base,
    )
    from aioexec.contrib.slim.nets.inception_v2 import (
        inception_v2 as inception_v2,
        inception_v2_arg_scope as inception_v2_arg_scope,
        inception_v2_base as inception_v2_base,
    )
    from aioexec.contrib.slim.nets.inception_v3 import (
        inception_v3 as inception_v3,
        inception_v3_arg_scope as inception_v3_arg_scope,
        inception_v3_base as inception_v3_base,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
