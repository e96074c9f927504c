"""Who may connect: certificates, tokens and their proofs, users of the machine."""
