"""Messages of TensorFlow Serving (`prediction_pb2`) and of the Open Inference Protocol (`inference_pb2`).

Same field numbers, hence the same bytes; another proto package and other file names, hence no clash with the classes of a
client library in one process. Generated modules (`*_pb2`) are never edited: change the `.proto`, then run the command at its
top.
"""
