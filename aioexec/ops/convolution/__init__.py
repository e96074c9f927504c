"""Convolutions of images and volumes, depthwise ones included: ops, launches, native loops, and the geometry of windows."""
