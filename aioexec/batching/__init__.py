"""Batching: concurrent requests to a model are joined, run as one step, and split again."""

from aioexec.batching.batcher import Batcher

__all__ = ["Batcher"]
