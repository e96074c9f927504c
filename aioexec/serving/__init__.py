"""Models over HTTP, with the REST interface of TensorFlow Serving."""

from aioexec.serving.application import application
from aioexec.serving.client import PredictionClient
from aioexec.serving.model import Model
from aioexec.serving.server import Server, serve

__all__ = ["Model", "PredictionClient", "Server", "application", "serve"]
