"""The network of the demo: three dense layers, 64-128-64-10, trained with Adam."""

from collections.abc import Callable

import aioexec as ax
from aioexec.data_classes import dataclass
from aioexec.demo import digits
from aioexec.train.hooks.global_step_read import required_global_step_read

_HIDDEN = (128, 64)
_LEARNING_RATE = 0.001
_DECAY = 0.8  # factor of the learning rate after each `_DECAY_STEPS`
_DECAY_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class Network:
    """A graph, and the parts of it that are fed and fetched."""

    graph: ax.Graph
    images: ax.Tensor  # fed: float32 [n, 64]
    labels: ax.Tensor  # fed for training and for the accuracy: int32 [n]
    global_step: ax.Variable
    step: ax.Tensor  # the number of training steps before this one, as hooks read it
    train: ax.Operation
    loss: ax.Tensor
    accuracy: ax.Tensor
    classes: ax.Tensor  # the most probable digit of each image
    probabilities: ax.Tensor


def build(seed: int = 0) -> Network:
    """Build the graph in the style of TensorFlow 1.x."""
    with ax.Graph().as_default() as graph:
        ax.set_random_seed(seed)
        images = ax.placeholder(ax.float32, [None, digits.SIZE * digits.SIZE], name="images")
        labels = ax.placeholder(ax.int32, [None], name="labels")

        layer = images
        for number, size in enumerate(_HIDDEN, start=1):
            layer = _dense(f"hidden{number}", layer, size, ax.nn.relu)
        logits = _dense("logits", layer, digits.CLASSES)

        losses = ax.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = ax.reduce_mean(losses, name="loss")
        step = ax.train.get_or_create_global_step()
        rate = ax.train.exponential_decay(_LEARNING_RATE, step, _DECAY_STEPS, _DECAY)
        train = ax.train.AdamOptimizer(rate).minimize(loss, global_step=step)
        step_read = required_global_step_read("the demo")
        ax.summary.scalar("training/loss", loss)
        ax.summary.scalar("training/learning_rate", rate)
        for variable in ax.trainable_variables():
            ax.summary.histogram(f"variables/{variable.op.name}", variable)
        classes = ax.argmax(logits, 1, output_type=ax.int32, name="classes")
        right = ax.cast(ax.equal(classes, labels), ax.float32)
        return Network(
            graph=graph,
            images=images,
            labels=labels,
            train=train,
            global_step=step,
            step=step_read,
            loss=loss,
            accuracy=ax.reduce_mean(right, name="accuracy"),
            classes=classes,
            probabilities=ax.nn.softmax(logits, name="probabilities"),
        )


def _dense(
    name: str, inputs: ax.Tensor, size: int, activation: Callable[[ax.Tensor], ax.Tensor] | None = None
) -> ax.Tensor:
    with ax.variable_scope(name):
        weights = ax.get_variable("weights", [inputs.shape[1].value, size], use_resource=True)
        biases = ax.get_variable("biases", [size], initializer=ax.zeros_initializer(), use_resource=True)
        outputs = ax.matmul(inputs, weights) + biases
        return outputs if activation is None else activation(outputs)
