"""Clusters under the names of `tf.distribute`: servers, and how a program learns of its cluster."""

from aioexec.distributed.cluster import cluster_resolver as cluster_resolver
from aioexec.distributed.server.server import Server as Server
