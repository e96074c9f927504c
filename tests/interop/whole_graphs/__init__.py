"""Programs as people wrote them, built by the real TensorFlow with its own gradients and optimisers, run by both engines.

`classifiers`, `images`, `sequences`, `generative` and `pipelines` hold the programs, `building` what one is, and
`running` runs them.
"""
