"""The JSON schemas of the Open Inference Protocol, for the OpenAPI description."""

from __future__ import annotations

from typing import Any, Final

from aioexec.serving.kserve.datatypes import DTYPES

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_PARAMETERS: Final[Schema] = {"type": "object"}
_TENSOR: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "datatype": {"enum": sorted(DTYPES)},
        "parameters": _PARAMETERS,
        "data": {"type": "array"},
    },
    "required": ["name", "shape", "datatype"],
}
_WANTED: Final[Schema] = {
    "type": "object",
    "properties": {"name": _TEXT, "parameters": _PARAMETERS},
    "required": ["name"],
}

INFER_REQUEST: Final[Schema] = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "parameters": _PARAMETERS,
        "inputs": {"type": "array", "items": _TENSOR},
        "outputs": {"type": "array", "items": _WANTED},
    },
    "required": ["inputs"],
    "additionalProperties": False,
}
INFER_REPLY: Final[Schema] = {
    "type": "object",
    "properties": {
        "model_name": _TEXT,
        "model_version": _TEXT,
        "id": _TEXT,
        "parameters": _PARAMETERS,
        "outputs": {"type": "array", "items": _TENSOR},
    },
    "required": ["model_name", "outputs"],
}
