"""The examples of docs/guide/testing.md pass, with the configuration that it shows."""

import re

import pytest

from tests.testing.plugin_runs import REPOSITORY, installed as installed

pytest_plugins = ["pytester"]

GUIDE = (REPOSITORY / "docs" / "guide" / "testing.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_examples_of_the_guide_pass(installed, pytester):
    examples = blocks("python test")
    for number, example in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": example})
    (settings,) = blocks("ini")

    result = installed("", "-W", "ignore:The configuration option", settings=settings)

    result.assert_outcomes(passed=10)
    assert len(examples) == 8


def test_the_guide_names_every_fixture_and_option():
    plugin = (REPOSITORY / "aioexec_pytest.py").read_text(encoding="utf-8")
    fixtures = re.findall(r"fixture\n(?:async )?def (\w+)", plugin)
    options = re.findall(r'add(?:option|ini)\(\s*"(?:--)?([\w-]+)"', plugin)

    assert len(fixtures) >= 8
    assert [name for name in fixtures if name != "ax_task_leak_check" and f"| `{name}` |" not in GUIDE] == []
    assert [name for name in options if name not in GUIDE and name != "aioexec-loop"] == []
