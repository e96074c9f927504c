"""Partial runs: steps that are fed and fetched in several calls. Other steps do not belong here."""
