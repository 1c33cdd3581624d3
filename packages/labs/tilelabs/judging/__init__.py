"""A source that nobody trusts: compiled in one process, run in another, timed in a third."""
