"""The configuration of a server in TOML: what it says, and what is refused."""

import pytest

from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.serving import config_file
from aioexec.serving.config_file import read_config
from aioexec.serving.limits import Limits
from aioexec.serving.models.model_config import Batching, ModelConfig
from aioexec.serving.models.version_policy import All, Latest, Specific


def read(tmp_path, text):
    path = tmp_path / "models.toml"
    path.write_text(text)
    return read_config(str(path))


def test_the_file_of_the_docstring_is_read(tmp_path):
    text = config_file.__doc__.partition("\n\n")[2]

    config = read(tmp_path, text)

    assert config.models == (
        ModelConfig(
            "digits",
            str(tmp_path / "models/digits"),
            Latest(2),
            {"stable": 3},
            Batching(64, 0.001, 1024, (1, 8, 64)),
            True,
        ),
    )
    assert config.poll_seconds == 5
    assert config.limits == Limits()
    assert config.options["host"] == "0.0.0.0"
    assert config.options["token_file"] == str(tmp_path / "token")


@pytest.mark.parametrize(
    ("versions", "policy"),
    [("", Latest(1)), ('versions = "all"', All()), ("versions = [3, 7]", Specific(frozenset({3, 7})))],
)
def test_versions_are_the_newest_all_or_given_ones(tmp_path, versions, policy):
    config = read(tmp_path, f'[models.a]\npath = "/models/a"\n{versions}')

    assert config.models == (ModelConfig("a", "/models/a", policy),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models", "Expected ']'"),
        (
            "model = 1",
            r"the file: unknown key 'model', expected \['limits', 'models', 'poll_seconds', 'server'\]",
        ),
        ("poll_seconds = 0", r"poll_seconds must be positive, got 0\.0"),
        ("poll_seconds = inf", "poll_seconds must be positive, got inf"),
        ("[models]\na = 1", r"\[models\.a\]: expected a table, got 1"),
        ("[models.a]", r"\[models\.a\]: expected a path"),
        ("[models.a]\npath = 1", r"\[models\.a\]: path must be a str, got 1"),
        ('[models."a/b"]\npath = "p"', "a model's name must be printable"),
        ('[models.a]\npath = "p"\nversions = "some"', "versions must be 'all', {latest = 2} or a list"),
        ('[models.a]\npath = "p"\nversions = {latest = 0}', "versions must be"),
        ('[models.a]\npath = "p"\nversions = []', "versions must be"),
        ('[models.a]\npath = "p"\nversions = [-1]', "versions must be"),
        ('[models.a]\npath = "p"\nlabels = {stable = "1"}', "expected a version's number for each label"),
        (
            '[models.a]\npath = "p"\nbatching = {max_delay = 1}',
            r"expected \['max_batch_size', 'max_queue'\] too",
        ),
        ("[server]\nport = true", r"\[server\]: port must be a int, got True"),
        ("[limits]\nrequests = 0", "Limits: requests must be positive, got 0"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(InvalidArgumentError, match=f"configuration .*models.toml': .*{message}"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match=r"configuration .*No such file"):
        read_config(str(tmp_path / "none.toml"))
