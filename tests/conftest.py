"""What holds for the whole suite: the plugin with its checks, and Hypothesis's settings."""

import hypothesis

pytest_plugins = ["aioexec.testing.plugin"]

hypothesis.settings.register_profile(
    "aioexec",
    deadline=None,  # a shared machine has no say in whether a test is right
    database=None,  # the seed is pytest-randomly's: the same order and examples are one option away
    print_blob=True,
    max_examples=50,
)
hypothesis.settings.load_profile("aioexec")
