"""The objects of models that TensorFlow 2 saved: functions, variables and tables by the names they had in the program."""
