"""Models over HTTP, with the REST interface of TensorFlow Serving."""

from aioexec.serving.application import application
from aioexec.serving.client import PredictionClient
from aioexec.serving.limits import Limits
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.repository import Repository
from aioexec.serving.server import Server, serve

__all__ = [
    "Limits",
    "ModelConfig",
    "PredictionClient",
    "Repository",
    "Server",
    "application",
    "serve",
]
