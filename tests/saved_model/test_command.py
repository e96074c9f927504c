"""`aioexec saved-model` shows the signatures of a model and runs them."""

import asyncio
import json

import numpy as np
import pytest

from aioexec.cli import main
from tests.saved_model.writing import X, Y, write_model

SERVING = """The given SavedModel SignatureDef contains the following input(s):
  inputs['x'] tensor_info:
      dtype: DT_FLOAT
      shape: (-1, 3)
      name: x:0
The given SavedModel SignatureDef contains the following output(s):
  outputs['y'] tensor_info:
      dtype: DT_FLOAT
      shape: (-1, 2)
      name: y:0
Method name is: tensorflow/serving/predict
"""


@pytest.fixture
def path(tmp_path):
    """The path of a SavedModel."""
    return asyncio.run(write_model(tmp_path / "1"))


def test_tags_signatures_and_tensors_are_shown(path, capsys):
    assert main(["saved-model", "show", "--dir", path]) == 0
    assert capsys.readouterr().out == "The given SavedModel contains the following tag-sets:\n'serve'\n"
    assert main(["saved-model", "show", "--dir", path, "--tag_set", "serve"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        f'SignatureDef key: "{name}"' for name in ("lookup", "serving_default", "sums")
    ]
    arguments = ["--tag_set", "serve", "--signature_def", "serving_default"]
    assert main(["saved-model", "show", "--dir", path, *arguments]) == 0
    assert capsys.readouterr().out == SERVING


def test_json_has_the_signatures(path, capsys):
    assert main(["saved-model", "show", "--dir", path, "--json"]) == 0

    (graph,) = json.loads(capsys.readouterr().out)
    assert graph["tags"] == ["serve"]
    assert graph["signatures"]["lookup"]["outputs"] == {
        "number": {"dtype": "DT_INT64", "shape": "(-1)", "name": "number:0"}
    }


def test_a_signature_is_run_with_an_expression(path, capsys):
    assert main(["saved-model", "run", "--dir", path, "--input_exprs", f"x={X.tolist()}"]) == 0
    assert capsys.readouterr().out == f"Result for output key y:\n{Y}\n"
    assert (
        main(
            [
                "saved-model",
                "run",
                "--dir",
                path,
                "--json",
                "--input_exprs",
                "x=np.ones((1, 3), dtype=np.float32)",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out) == {"y": [[19.0, 32.0]]}


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.npz[x]"])
def test_a_signature_is_run_with_a_file_and_saved(path, tmp_path, capsys, name):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    command = [
        "saved-model",
        "run",
        "--dir",
        path,
        "--inputs",
        f"x={tmp_path / name}",
        "--outdir",
        str(tmp_path),
    ]

    assert main(command) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), Y)
    assert capsys.readouterr().out == f"Output y is saved to {tmp_path / 'y.npy'}\n"
    assert main(command) == 1
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "--tag_set", "train"], "UnknownTagsError"),
        (["show", "--tag_set", "serve", "--signature_def", "none"], "no signature 'none'"),
        (["run", "--input_exprs", "x=__import__('os').getcwd()"], "expected a literal"),
        (["run", "--input_exprs", "x=np.load('file')"], "expected a literal"),
        (["run", "--input_exprs", "x"], "expected NAME=VALUE"),
        (["run", "--inputs", "x=/none.npy"], "/none.npy: no such file"),
        (["run"], "expected inputs ['x'], got []"),
    ],
)
def test_what_is_wrong_is_one_line(path, capsys, arguments, message):
    assert main(["saved-model", arguments[0], "--dir", path, *arguments[1:]]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
