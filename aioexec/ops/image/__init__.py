"""Ops on images: codecs, colours, resizing, crops and boxes. Convolution and pooling have packages of their own."""
