"""SavedModels under the names of `tf.saved_model`; `aioexec.load` loads one with a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.saved_model import (
        constants as constants,
        signature_constants as signature_constants,
        tag_constants as tag_constants,
    )
    from aioexec.saved_model.loaded_model import LoadedModel as LoadedModel
    from aioexec.saved_model.model_files import contains_saved_model as contains_saved_model
    from aioexec.saved_model.signature import Signature as Signature
else:
    __getattr__, __dir__ = public_names(__name__)
