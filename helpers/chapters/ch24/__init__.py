"""Chapter 24, the whole ladder: the checks of its exercises."""
