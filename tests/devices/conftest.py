"""Fixtures of the engine's tests."""

from tests.tiers import ops as ops, tier as tier
