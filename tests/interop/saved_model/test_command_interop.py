"""`aioexec saved-model show` prints what TensorFlow's saved_model_cli prints, for models of both."""

import asyncio
import os
import re
import shutil
import subprocess
import sys

import pytest

from aioexec.cli import main
from tests.saved_model.writing import write_model

pytestmark = pytest.mark.interop

TOOL = shutil.which("saved_model_cli", path=os.path.dirname(sys.executable))


def lines(text: str) -> list[str]:
    """The lines, with the ops of a graph in the order of the alphabet."""
    return [
        re.sub(r"\{.*\}", lambda ops: str(sorted(re.findall(r"\w+", ops[0]))), line)
        for line in text.splitlines()
    ]


@pytest.fixture(params=["ours", "theirs"])
def path(request, tf, tmp_path):
    """The path of a SavedModel written here, or by TensorFlow with a scalar and two graphs."""
    if request.param == "ours":
        return asyncio.run(write_model(tmp_path / "1"))
    path = str(tmp_path / "1")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float64, [])
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": x + 1})
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.add_meta_graph(["serve", "gpu"], {"serving_default": signature, "other": signature})
        builder.save()
    return path


@pytest.mark.skipif(TOOL is None, reason="TensorFlow's tool is not installed")
@pytest.mark.parametrize(
    "arguments",
    [["--all"], [], ["--tag_set", "serve"], ["--tag_set", "serve", "--signature_def", "serving_default"]],
)
def test_the_tool_of_tensorflow_shows_the_same(path, capsys, arguments):
    assert TOOL is not None
    theirs = subprocess.run(
        [TOOL, "show", "--dir", path, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )

    assert main(["saved-model", "show", "--dir", path, *arguments]) == 0

    assert lines(capsys.readouterr().out) == lines(theirs.stdout)
