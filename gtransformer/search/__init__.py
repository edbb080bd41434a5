"""Document-aware search: the sentence constraint, and the generator that runs it."""
