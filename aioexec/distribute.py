"""Servers, cluster descriptions and resolvers under the names of `tf.distribute`."""

from aioexec.distributed.cluster import cluster_resolver as cluster_resolver
from aioexec.distributed.server.server import Server as Server
