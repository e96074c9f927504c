"""TensorFlow, imported once and quietly."""

import os
from typing import Any

import pytest

from tests.interop.comparing import Recorder


@pytest.fixture(scope="session")
def tf() -> Any:
    """The module `tensorflow.compat.v1`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # the same order of summation each time
    os.environ.setdefault(
        "TF_USE_LEGACY_KERAS", "1"
    )  # `tf.layers` is that of tf-keras; without it the names are missing
    return pytest.importorskip("tensorflow").compat.v1


@pytest.fixture(scope="session")
def recorder(tf) -> Recorder:
    """Builds and runs graphs with TensorFlow, each once a session."""
    return Recorder(tf)
