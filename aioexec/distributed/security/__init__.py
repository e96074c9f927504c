"""Authentication of connections: certificates, tokens and their proofs, users of the machine."""
