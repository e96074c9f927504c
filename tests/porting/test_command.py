"""The command `aioexec port`: what it writes where, and its exit status."""

import pytest

from aioexec import cli

BEFORE = "import tensorflow as tf\n\n\ndef f(sess):\n    return sess.run('x')\n"
AFTER = "import aioexec as tf\n\n\nasync def f(sess):\n    return await sess.run('x')\n"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(BEFORE)
    return path


def test_the_changes_are_shown_and_the_file_stays(program, capsys):
    status = cli.main(["port", str(program)])

    shown = capsys.readouterr().out
    assert (status, program.read_text()) == (0, BEFORE)
    assert (
        "-def f(sess):\n-    return sess.run('x')\n+async def f(sess):\n+    return await sess.run('x')\n"
        in shown
    )


def test_a_file_is_overwritten_only_in_place(program):
    program.chmod(0o640)

    status = cli.main(["port", "--in-place", str(program)])

    assert (status, program.read_text(), program.stat().st_mode & 0o777) == (0, AFTER, 0o640)
    assert list(program.parent.iterdir()) == [program]


def test_a_folder_is_written_to_another_with_its_structure(program, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "user.py").write_text("from program import f\n\n\ndef g(s):\n    return f(s)\n")
    output = tmp_path.parent / f"{tmp_path.name}-output"

    status = cli.main(["port", "--output", str(output), str(tmp_path)])

    assert (status, program.read_text(), (output / "program.py").read_text()) == (0, BEFORE, AFTER)
    assert (output / "inner" / "user.py").read_text().endswith("async def g(s):\n    return await f(s)\n")


def test_check_shows_nothing_and_says_whether_there_is_anything_to_port(program, capsys):
    before = cli.main(["port", "--check", str(program)])
    program.write_text(AFTER)
    after = cli.main(["port", "--check", str(program)])

    assert (before, after, capsys.readouterr().out) == (1, 0, "")


def test_what_is_left_to_do_is_listed_with_its_line(program, capsys):
    program.write_text("import tensorflow as tf\n\nclass A(object):\n    x = tf.Session().run('x')\n")

    status = cli.main(["port", str(program)])

    assert status == 1
    assert capsys.readouterr().err == (
        f"{program}:4: the body of a class cannot await: move this into a coroutine function\n"
    )


def test_a_program_of_python_2_is_an_error(program, capsys):
    program.write_text("print 'x'\n")

    status = cli.main(["port", str(program)])

    assert status == 2
    assert f"{program}:1: this is no Python 3" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_an_error(tmp_path, capsys):
    status = cli.main(["port", str(tmp_path / "none.py")])

    assert status == 2
    assert "No such file" in capsys.readouterr().err
