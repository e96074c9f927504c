"""The options of commands that listen: the command line comes before a configuration file, and that before the environment."""

import argparse

import pytest

from aioexec.distributed.security.options import add_security_options, security_of
from aioexec.distributed.security.security import TOKEN_VARIABLE


@pytest.fixture
def token_file(tmp_path):
    def write(token):
        path = tmp_path / token
        path.write_text(token, encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    return write


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_security_options(parser)
    return parser.parse_args(words)


def test_the_command_line_comes_first_then_the_file_then_the_environment(token_file, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, token_file("of-environment"))
    settings = {"token_file": token_file("of-file")}

    assert security_of(parsed("--token-file", token_file("given")), settings).token == "given"
    assert security_of(parsed(), settings).token == "of-file"
    assert security_of(parsed()).token == "of-environment"


def test_insecure_is_said_on_the_command_line_or_in_the_file():
    assert security_of(parsed("--insecure")).insecure
    assert security_of(parsed(), {"insecure": True}).insecure
    assert not security_of(parsed()).insecure
