"""Messages between processes: protocols, codecs, and the transports below them.

`fast`, `grpc` and `memory` are transports; what is here serves all of them.
"""
