"""Assets of TensorBoard plugins: files that belong to a graph, written beside its events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from aioexec.errors import GraphValueError

_COLLECTION: Final = "__tensorboard_plugin_asset__"
"""The graph collection with the names of plugins; followed by a name, the collection with that plugin's asset."""


class PluginAsset(ABC):
    """The files of a TensorBoard plugin; a subclass sets `plugin_name` and implements `assets`."""

    plugin_name: str | None = None

    @abstractmethod
    def assets(self) -> Mapping[str, str]:
        """The files, name -> content; called when a `FileWriter` writes the graph."""


Asset = TypeVar("Asset", bound=PluginAsset)


class Collections(Protocol):
    """The interface of a graph that is used here."""

    def get_collection(self, name: str) -> list[Any]: ...

    def add_to_collection(self, name: str, value: Any) -> None: ...


def plugin_asset_of(graph: Collections, plugin_asset_cls: type[Asset]) -> Asset:
    """The graph's one asset of this class, made if there is none.

    Raises:
        GraphValueError: the class names no plugin, or the plugin has assets of another class.
    """
    plugin = plugin_asset_cls.plugin_name
    if not plugin:
        raise GraphValueError(f"Class {plugin_asset_cls.__name__} has no plugin_name")
    if not graph.get_collection(_COLLECTION + plugin):
        asset = plugin_asset_cls()
        graph.add_to_collection(_COLLECTION + plugin, asset)
        graph.add_to_collection(_COLLECTION, plugin)
        return asset
    found = _only(graph, plugin)
    if not isinstance(found, plugin_asset_cls):
        raise GraphValueError(
            f"Plugin name collision between classes {plugin_asset_cls.__name__} and {type(found).__name__}"
        )
    return found


def all_plugin_assets(graph: Collections) -> list[PluginAsset]:
    """The assets of all plugins of a graph.

    Raises:
        GraphValueError: a plugin has several.
    """
    return [_only(graph, plugin) for plugin in graph.get_collection(_COLLECTION)]


def _only(graph: Collections, plugin: str) -> Any:
    held = graph.get_collection(_COLLECTION + plugin)
    if len(held) != 1:
        raise GraphValueError(f"Collection for {_COLLECTION + plugin} had {len(held)} items, expected 1")
    return held[0]
