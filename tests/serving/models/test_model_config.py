"""The configuration of models."""

import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.serving.models.model_config import ModelConfig


@pytest.mark.parametrize("name", ["", "a/b", "a:predict", "a\n"])
def test_a_name_that_no_url_can_have_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="a model's name must be printable"):
        ModelConfig(name, "path")
