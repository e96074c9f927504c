"""Graph files in all of TensorFlow's formats: binary or text, with and without collections."""

import pytest

from aioexec.errors import DataLossError, NotFoundError
from aioexec.formats.protos import MetaGraphDef
from aioexec.inspection.graph_files import read_graph
from tests.tiers import constant, graph, op


@pytest.fixture
def written(tmp_path):
    """A folder with one graph in every form."""
    with graph() as g:
        op("Neg", constant(1.0), name="negated")
    definition = g.as_graph_def()
    definition.node[0].device = "/job:worker/task:7"  # of a cluster that is not here
    meta = MetaGraphDef(graph_def=definition)
    for name, message in (("graph", definition), ("meta", meta)):
        (tmp_path / f"{name}.pb").write_bytes(message.SerializeToString())
        (tmp_path / f"{name}.pbtxt").write_text(str(message), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["graph.pb", "graph.pbtxt", "meta.pb", "meta.pbtxt"])
def test_a_graph_is_found_in_every_form(written, name):
    found = read_graph(written / name)

    assert [(each.type, each.name, each.device) for each in found.get_operations()] == [
        ("Const", "Const", ""),
        ("Neg", "negated", ""),
    ]


@pytest.mark.parametrize("content", [b"", b"no graph", b"\x0a\x03abc"])
def test_what_holds_no_graph_is_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(DataLossError, match="other"):
        read_graph(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="absent"):
        read_graph(tmp_path / "absent")
