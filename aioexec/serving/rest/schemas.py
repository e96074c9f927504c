"""The JSON schemas of the REST interface, for its OpenAPI description."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final = {"signature_name": _TEXT}
_ANY: Final[Schema] = {}
_BYTES: Final = _object({"b64": _TEXT})
_ONE: Final = {"anyOf": [{"type": "number"}, _TEXT, _BYTES]}
_FEATURES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"anyOf": [_ONE, {"type": "array", "items": _ONE}]},
}

PREDICT_REQUEST: Final = {
    "oneOf": [
        _object({"instances": {"type": "array", "minItems": 1, "items": _ANY}}, _NAME),
        _object({"inputs": _ANY}, _NAME),
    ]
}
PREDICT_REPLY: Final = {
    "oneOf": [_object({"predictions": {"type": "array", "items": _ANY}}), _object({"outputs": _ANY})]
}
EXAMPLES_REQUEST: Final = _object(
    {"examples": {"type": "array", "minItems": 1, "items": _FEATURES}}, {"context": _FEATURES, **_NAME}
)
CLASSIFY_REPLY: Final = _object(
    {
        "result": {
            "type": "array",
            "items": {
                "type": "array",
                "items": {"type": "array", "prefixItems": [_ANY, _ANY], "minItems": 2, "maxItems": 2},
            },
        }
    }
)
REGRESS_REPLY: Final = _object({"result": {"type": "array", "items": {"type": ["number", "string"]}}})
STATUS_REPLY: Final = _object(
    {
        "model_version_status": {
            "type": "array",
            "items": _object(
                {
                    "version": {"type": "string", "pattern": "^[0-9]+$"},
                    "state": {"enum": ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]},
                    "status": _object({"error_code": _TEXT, "error_message": _TEXT}),
                }
            ),
        }
    }
)
_TENSORS: Final[Schema] = {
    "type": "object",
    "additionalProperties": _object(
        {
            "dtype": {"type": "string", "pattern": "^DT_"},
            "tensor_shape": _object(
                {
                    "dim": {"type": "array", "items": _object({"size": _TEXT, "name": _TEXT})},
                    "unknown_rank": {"type": "boolean"},
                }
            ),
            "name": _TEXT,
        }
    ),
}
METADATA_REPLY: Final = _object(
    {
        "model_spec": _object({"name": _TEXT, "signature_name": _TEXT, "version": _TEXT}),
        "metadata": _object(
            {
                "signature_def": _object(
                    {
                        "signature_def": {
                            "type": "object",
                            "additionalProperties": _object(
                                {"inputs": _TENSORS, "outputs": _TENSORS, "method_name": _TEXT}
                            ),
                        }
                    }
                )
            }
        ),
    }
)
