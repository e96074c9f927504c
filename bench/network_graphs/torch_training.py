"""Training steps in torch: forward, loss, backward and an optimiser of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bench.network_graphs.torch_images import resnet50_logits
from bench.network_graphs.torch_layers import Layer, Weights
from bench.network_graphs.torch_sequences import bert, lstm


class Adam(torch.optim.Adam):
    """torch's, with TensorFlow's epsilon: it is added before the correction of the second moment's bias, not after it."""

    def __init__(self, tensors: Sequence[Tensor], lr: float) -> None:
        super().__init__(tensors, lr=lr)
        self._steps = 0

    def step(self, closure: Any = None) -> Any:
        self._steps += 1
        for group in self.param_groups:
            group["eps"] = 1e-8 / (1 - group["betas"][1] ** self._steps) ** 0.5
        return super().step(closure)


class Training:
    """A network that is trained from the initial values of its weights; a step returns the loss.

    The loss is the cross entropy of the output with the labels, which are the last feed; of a network without labels it is the
    mean square of the output.
    """

    def __init__(
        self,
        network: Callable[[Weights], Layer],
        optimizer: Callable[[Sequence[Tensor]], torch.optim.Optimizer],
        has_labels: bool,
        values: Sequence[Tensor],
    ) -> None:
        weights = Weights(values, trains=True)
        self._network = network(weights)
        self._trained = weights.trained
        self._initial = [tensor.detach().clone() for tensor in self._trained]
        self._has_labels = has_labels
        self._new_optimizer = optimizer
        self._optimizer = optimizer(self._trained)

    def restart(self) -> None:
        """Take the initial values again."""
        with torch.no_grad():
            for tensor, initial in zip(self._trained, self._initial, strict=True):
                tensor.copy_(initial)
        self._optimizer = self._new_optimizer(self._trained)

    def step(self, *feeds: Tensor) -> Any:
        self._optimizer.zero_grad()
        if self._has_labels:
            *inputs, labels = feeds
            loss = functional.cross_entropy(self._network(*inputs), labels.long())
        else:
            loss = self._network(*feeds).square().mean()
        loss.backward()
        self._optimizer.step()
        return loss.detach().numpy()


TORCH_TRAINING: dict[str, Callable[[Sequence[Tensor]], Training]] = {
    "resnet50_training": partial(
        Training, resnet50_logits, partial(torch.optim.SGD, lr=0.01, momentum=0.9), True
    ),
    "bert_base_training": partial(Training, bert, partial(Adam, lr=1e-5), True),
    "lstm_256_training": partial(Training, lstm, partial(Adam, lr=1e-3), False),
}
"""Each makes a training from the initial values of the weights, in the order in which the TensorFlow network makes them."""
