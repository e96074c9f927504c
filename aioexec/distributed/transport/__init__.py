"""Calls between processes: the transport interface, codecs, and the transports that implement it.

`fast`, `grpc` and `memory` are transports; the modules of this package are common to all of them.
"""
