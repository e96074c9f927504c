"""The modules that programs import from `tensorflow.python.client`, under their names: `session`, `timeline`, `device_lib`."""
