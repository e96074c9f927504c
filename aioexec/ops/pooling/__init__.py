"""Pooling of images and volumes, patches of images, and morphological dilation."""
