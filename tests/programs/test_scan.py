"""The scan of programs for names that aioexec lacks."""

from tests.programs import scan


def test_it_lists_the_missing_names_of_files_that_import_tensorflow(tmp_path, capsys):
    (tmp_path / "old.py").write_text("import tensorflow as tf\nprint 'Python 2'\n")
    (tmp_path / "other.py").write_text("tensorflow = 1\n")
    (tmp_path / "complete.py").write_text("import tensorflow as tf\nx = tf.nn.relu(tf.mul(1.0, 2.0))\n")
    (tmp_path / "lacking.py").write_text(
        "import tensorflow as tf\nnn = tf.nn\nnn.no_such(1)\nnn.no_such(2)\n"
        "try:\n    tf.maybe()\nexcept AttributeError:\n    pass\n"
    )

    scan.main([str(tmp_path)])

    assert capsys.readouterr().out == (
        f"{tmp_path}/lacking.py: nn.no_such\n\n1 of 2 files find every name (50.0%); 1 are no Python 3\n    1 nn.no_such\n"
    )
