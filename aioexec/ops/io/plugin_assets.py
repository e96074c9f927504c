"""Assets of TensorBoard's plugins, of the default graph."""

from __future__ import annotations

from typing import TypeVar

from aioexec.graph.graph import Graph, get_default_graph
from aioexec.observability.plugin_assets import (
    PluginAsset as PluginAsset,
    all_plugin_assets,
    plugin_asset_of,
)

Asset = TypeVar("Asset", bound=PluginAsset)


def get_plugin_asset(plugin_asset_cls: type[Asset], graph: Graph | None = None) -> Asset:
    """The graph's one asset of this class, made if there is none.

    Raises:
        GraphValueError: the class names no plugin, or the plugin has assets of another class.
    """
    return plugin_asset_of(graph or get_default_graph(), plugin_asset_cls)


def get_all_plugin_assets(graph: Graph | None = None) -> list[PluginAsset]:
    """The assets of all plugins of a graph.

    Raises:
        GraphValueError: a plugin has several.
    """
    return all_plugin_assets(graph or get_default_graph())
