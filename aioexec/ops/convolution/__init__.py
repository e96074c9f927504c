"""Convolutions of images and volumes, also depthwise: definitions, launches and native loops; the geometry of windows."""
