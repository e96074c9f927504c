"""MNIST's images of digits: 55,000 to train with, 5,000 to validate with, 10,000 to test with."""

from aioexec.examples.tutorials.mnist import input_data as input_data
