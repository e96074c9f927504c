"""The names of files and collections of a SavedModel, as `tf.saved_model.constants` has them."""

from typing import Final

SAVED_MODEL_SCHEMA_VERSION: Final = 1
SAVED_MODEL_FILENAME_PB: Final = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT: Final = "saved_model.pbtxt"
VARIABLES_DIRECTORY: Final = "variables"
VARIABLES_FILENAME: Final = "variables"
ASSETS_DIRECTORY: Final = "assets"
EXTRA_ASSETS_DIRECTORY: Final = "assets.extra"

ASSETS_KEY: Final = "saved_model_assets"
"""The collection of the asset files, as AssetFileDefs."""

MAIN_OP_KEY: Final = "saved_model_main_op"
"""The collection of the operation that is run after the variables are restored."""

LEGACY_INIT_OP_KEY: Final = "legacy_init_op"
"""The older name of that collection."""

TRAIN_OP_KEY: Final = "saved_model_train_op"
"""The collection of the operation that trains a step."""

INIT_OP_SIGNATURE_KEY: Final = "__saved_model_init_op"
"""The signature whose only output is the operation to run after the variables are restored."""

TRAIN_OP_SIGNATURE_KEY: Final = "__saved_model_train_op"
"""The signature whose only output is the operation that trains a step."""
