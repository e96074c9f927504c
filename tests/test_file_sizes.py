"""The limit on the length of source files."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MOST_LINES = 500
GENERATED = ("*_pb2.py", "*_pb2_grpc.py")


def test_no_source_file_is_longer_than_500_lines():
    too_long = {
        str(path.relative_to(REPOSITORY)): lines
        for folder in ("aioexec", "bench", "tests")
        for path in (REPOSITORY / folder).rglob("*.py")
        if not any(path.match(pattern) for pattern in GENERATED)
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }

    assert too_long == {}
