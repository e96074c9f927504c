"""The request and reply of a client's step with one signature: names with ports, tensors, and results matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.dtypes import DType, resource, variant
from aioexec.errors import InternalError
from aioexec.formats.protos import RunStepRequest, RunStepResponse
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from aioexec.planning.subgraph import Signature
from aioexec.sessions.run_options import StepOptions

_AS_PROTOS = frozenset({resource, variant})


class StepRequest:
    """The request of one signature. Tensors that are both fed and fetched are returned here, since servers refuse them.

    Constant: `feeds` and `outputs`, names in the caller's order; `asked`, the fetches to request, each once; `is_local`:
    nothing is to be requested; `_echoed`, the feeds that are also fetched; `_places`, for each output its index in `asked`,
    None if feeds are fetched; `_dtypes`, of the results, where known; `_protos`, indices of feeds that are sent as protos;
    `_usual`, the result names of a reply whose values need no reordering; `_start`, the serialized part that is the same for
    all steps.
    """

    __slots__ = (
        "_dtypes",
        "_echoed",
        "_places",
        "_protos",
        "_start",
        "_usual",
        "asked",
        "feeds",
        "is_local",
        "outputs",
    )

    def __init__(
        self,
        session_handle: str,
        feeds: Sequence[str],
        outputs: Sequence[str],
        targets: Sequence[str],
        dtypes: dict[str, DType],
        *,
        echoes: bool = False,
    ) -> None:
        self.feeds = tuple(feeds)
        self.outputs = tuple(outputs)
        self._echoed = frozenset(feeds) if echoes else frozenset()
        self.asked = tuple(dict.fromkeys(name for name in outputs if name not in self._echoed))
        self.is_local = echoes and not self.asked and not targets
        self._dtypes = [dtypes[name].numpy if name in dtypes else None for name in self.asked]
        self._protos = [place for place, name in enumerate(feeds) if dtypes.get(name) in _AS_PROTOS]
        self._places = [self.asked.index(name) for name in outputs] if not self._echoed else None
        plain = self.asked == self.outputs and all(
            dtypes.get(name, variant) not in _AS_PROTOS for name in outputs
        )
        self._usual = list(outputs) if plain else None
        start = RunStepRequest(
            session_handle=session_handle,
            fetch=self.asked,
            target=targets,
            store_errors_in_response_body=True,
        )
        start.options.SetInParent()
        for name in feeds:
            start.feed.add(name=name)
        self._start = start.SerializeToString()

    @classmethod
    def of_signature(cls, session_handle: str, signature: Signature) -> StepRequest:
        """The request for a signature, of a graph of ours."""
        tensors = (*signature.feeds, *signature.fetches)
        return cls(
            session_handle,
            [tensor.name for tensor in signature.feeds],
            [tensor.name for tensor in signature.fetches],
            [op.name for op in signature.targets],
            {tensor.name: tensor.dtype.base_dtype for tensor in tensors},
            echoes=True,
        )

    def run_nowait(self, feeds: Any) -> None:
        """None: a server's reply has to be awaited."""

    def echoed(self, feeds: Sequence[Any]) -> list[Any]:
        """The outputs if all of them are fed."""
        by_name = dict(zip(self.feeds, feeds, strict=True))
        return [by_name[name] for name in self.outputs]

    def message(self, request_id: int, options: StepOptions, timeout_in_ms: int) -> RunStepRequest:
        """The message of one step, without its tensors."""
        message = RunStepRequest.FromString(self._start)
        message.request_id = request_id
        if options.proto is not None:
            message.options.CopyFrom(options.proto)
        if timeout_in_ms > 0:
            message.options.timeout_in_ms = timeout_in_ms
        return message

    def place_tensors(self, message: RunStepRequest, feeds: Sequence[Any]) -> Sequence[Any]:
        """The tensors to send beside a message; those sent as protos are put into the message."""
        if not self._protos:
            return feeds
        tensors = list(feeds)
        for place in self._protos:
            value = tensors[place]
            dtype = resource if not value.size or hasattr(value.item(0), "container") else variant
            message.feed[place].tensor.CopyFrom(encode_tensor(value, dtype))
            tensors[place] = None
        return tensors

    def results(self, message: RunStepResponse, tensors: Sequence[Any], feeds: Sequence[Any]) -> list[Any]:
        """The outputs in the caller's order.

        Raises:
            InternalError: the server returned other tensors than were requested.
        """
        if len(message.tensor) != len(tensors):
            raise InternalError(f"the server named {len(message.tensor)} tensors, and sent {len(tensors)}")
        if [each.name for each in message.tensor] == self._usual:
            self._check_dtypes(tensors)
            return list(tensors)
        found = self._found(message, tensors)
        self._check_dtypes(found)
        if self._places is not None:
            return [found[place] for place in self._places]
        by_name = {**dict(zip(self.feeds, feeds, strict=True)), **dict(zip(self.asked, found, strict=True))}
        return [by_name[name] for name in self.outputs]

    def _check_dtypes(self, values: Sequence[Any]) -> None:
        for place, (value, dtype) in enumerate(zip(values, self._dtypes, strict=True)):
            if value.dtype is not dtype and dtype is not None and value.dtype != dtype:
                raise InternalError(
                    f"fetch {self.asked[place]}: expected {dtype} from the server, got {value.dtype}"
                )

    def _found(self, message: RunStepResponse, tensors: Sequence[Any]) -> list[Any]:
        """The results, in the order of the fetches."""
        named = {
            each.name: decode_tensor(each.tensor) if value is None else value
            for each, value in zip(message.tensor, tensors, strict=True)
        }
        unasked = named.keys() - set(self.asked)
        if unasked:
            raise InternalError(f"Received response for unrequested fetch: {', '.join(sorted(unasked))}")
        missing = [name for name in self.asked if name not in named]
        if missing:
            raise InternalError(f"the server returned no value for {', '.join(missing)}")
        return [named[name] for name in self.asked]
