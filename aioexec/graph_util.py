"""Functions on GraphDefs, under the names of `tf.graph_util`."""

from __future__ import annotations

from aioexec.graph.io.graphdef_import import import_graph_def as import_graph_def
from aioexec.graph.io.sub_graphs import extract_sub_graph as extract_sub_graph
from aioexec.train.checkpoints.freezing import (
    convert_variables_to_constants as convert_variables_to_constants,
    remove_training_nodes as remove_training_nodes,
)
