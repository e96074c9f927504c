"""Pooling of images and volumes, patches of images, morphological dilation and erosion."""
