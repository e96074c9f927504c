"""Private modules of TensorFlow that programs import, with the names that programs use: `tensorflow.python` as far as needed.

`aioexec port` sends imports of private modules to the public ones where these have their names, and here otherwise.
"""
