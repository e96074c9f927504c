"""Realistic programs, built by the real TensorFlow with its own gradients and optimisers, run by both engines.

`classifiers`, `images`, `sequences`, `generative` and `pipelines` contain the programs, `building` their data type, and
`running` runs them.
"""
