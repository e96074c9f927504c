"""Assets of TensorBoard plugins, one per plugin and graph."""

from __future__ import annotations

from typing import TypeVar

from aioexec.graph.graph import Graph, get_default_graph
from aioexec.observability.plugin_assets import PluginAsset as PluginAsset, all_plugin_assets, plugin_asset_of

Asset = TypeVar("Asset", bound=PluginAsset)


def get_plugin_asset(plugin_asset_cls: type[Asset], graph: Graph | None = None) -> Asset:
    """Return the graph's asset of this class, creating it if there is none.

    Raises:
        GraphValueError: the class has no plugin name, or the plugin already has an asset of another class.
    """
    return plugin_asset_of(graph or get_default_graph(), plugin_asset_cls)


def get_all_plugin_assets(graph: Graph | None = None) -> list[PluginAsset]:
    """Return the assets of all plugins of a graph.

    Raises:
        GraphValueError: a plugin has several assets.
    """
    return all_plugin_assets(graph or get_default_graph())
