"""Models written by TensorFlow, each once a session."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.saved_model.tf2_exports import Writer


@pytest.fixture(scope="session")
def writer(tf: Any, tmp_path_factory: Any) -> Writer:
    """Writes models of TensorFlow 2."""
    import tensorflow

    return Writer(tensorflow, tmp_path_factory.mktemp("models"))
