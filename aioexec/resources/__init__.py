"""State that outlives a step."""
