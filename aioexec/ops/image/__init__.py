"""Ops on images: codecs, colours, resizing, crops and boxes. Convolution and pooling are separate packages."""
