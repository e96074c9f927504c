"""Programs that write, load or freeze models are ported: what does I/O or runs a session is awaited."""

from tests.porting.test_port import check

PROGRAM = """
from tensorflow.python.framework import graph_util
from tensorflow.python.saved_model import builder as saved_model_builder
from tensorflow.python.saved_model import signature_constants, tag_constants
from tensorflow.python.saved_model import utils
from tensorflow.python.tools import freeze_graph


def export(sess, x, y, path):
    builder = tf.saved_model.builder.SavedModelBuilder(path)
    signature = tf.saved_model.signature_def_utils.build_signature_def(
        inputs={"x": tf.saved_model.utils.build_tensor_info(x)},
        outputs={"y": utils.build_tensor_info(y)},
        method_name=signature_constants.PREDICT_METHOD_NAME)
    builder.add_meta_graph_and_variables(sess, [tag_constants.SERVING], {"serving_default": signature})
    return builder.save()


def again(sess, path):
    other = saved_model_builder.SavedModelBuilder(path)
    other.save(as_text=True)
    tf.saved_model.simple_save(sess, path, {}, {})
    tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], path)
    frozen = graph_util.convert_variables_to_constants(sess, sess.graph_def, ["y"])
    freeze_graph.freeze_graph("graph.pb", "", True, path, "y", "", "", "frozen.pb", True, "")
    return frozen
"""

PORTED = """
import aioexec.graph_util as graph_util
import aioexec.saved_model.builder as saved_model_builder
import aioexec.saved_model.signature_constants as signature_constants
import aioexec.saved_model.tag_constants as tag_constants
import aioexec.saved_model.utils as utils
import aioexec.python.freeze_graph as freeze_graph


async def export(sess, x, y, path):
    builder = tf.saved_model.builder.SavedModelBuilder(path)
    signature = tf.saved_model.signature_def_utils.build_signature_def(
        inputs={"x": tf.saved_model.utils.build_tensor_info(x)},
        outputs={"y": utils.build_tensor_info(y)},
        method_name=signature_constants.PREDICT_METHOD_NAME)
    await builder.add_meta_graph_and_variables(sess, [tag_constants.SERVING], {"serving_default": signature})
    return await builder.save()


async def again(sess, path):
    other = saved_model_builder.SavedModelBuilder(path)
    await other.save(as_text=True)
    await tf.saved_model.simple_save(sess, path, {}, {})
    await tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], path)
    frozen = await graph_util.convert_variables_to_constants(sess, sess.graph_def, ["y"])
    await freeze_graph.freeze_graph("graph.pb", "", True, path, "y", "", "", "frozen.pb", True, "")
    return frozen
"""


def test_what_writes_loads_or_freezes_a_model_is_awaited():
    check(PROGRAM, PORTED)
