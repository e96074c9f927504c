"""Shared by ops of all topics: shape rules of element-wise ops, resource handles, strided copies, estimates of work.

Modules here register no op that belongs to a topic.
"""
