"""Random numbers: the Philox generator, distributions, stateless ops and candidate samplers."""
