"""Outputs and variables in collections: the aliases of outputs, and the collections of each kind of variable.

An alias is a second name of a tensor: the scope of the layer that made it. `outputs_collections` of a layer has its output;
`convert_collection_to_dict` returns the tensors of a collection by alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aioexec.graph.graph import Graph, get_default_graph
from aioexec.ops.state.partitioned_variables import PartitionedVariable

_ALIASES: Final = ("__aliases_of_tensors",)
"""The collection whose single value has the aliases of tensors by their names."""


def _aliases(graph: Graph) -> dict[str, list[str]]:
    held = graph.get_collection_ref(_ALIASES)
    if not held:
        held.append({})
    found: dict[str, list[str]] = held[0]
    return found


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Give a tensor an alias, add it to collections (a name, a list of names or None), and return it."""
    if collections:
        append_tensor_alias(outputs, alias)
        outputs.graph.add_to_collections(collections, outputs)
    return outputs


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Give a tensor one more alias, without a slash at its end, and return it."""
    _aliases(tensor.graph).setdefault(tensor.name, []).append(alias.removesuffix("/"))
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """Return the aliases of a tensor; its name without `:0` if it has none."""
    return _aliases(tensor.graph).get(tensor.name) or [tensor.name.removesuffix(":0")]


def gather_tensors_aliases(tensors: Iterable[Any]) -> list[str]:
    """Return the aliases of all tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """Return the tensors of a collection of the default graph by their aliases, and empty it if asked to."""
    graph = get_default_graph()
    found = {
        alias: tensor for tensor in graph.get_collection(collection) for alias in get_tensor_aliases(tensor)
    }
    if clear_collection:
        graph.clear_collection(collection)
    return found


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """Return the collections of a variable: those of its name in a dict, or all of a list."""
    return (
        variables_collections.get(name)
        if isinstance(variables_collections, Mapping)
        else variables_collections
    )


def add_to_variable_collections(variable: Any, variables_collections: Any, name: str) -> None:
    """Add a variable, or the parts of a partitioned one, to the collections of its name, once to each."""
    parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
    for collection in get_variable_collections(variables_collections, name) or ():
        held = get_default_graph().get_collection_ref(collection)
        held += [part for part in parts if all(part is not each for each in held)]
