"""Pooling of images and volumes, and patches of images."""
