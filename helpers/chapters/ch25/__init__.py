"""Chapter 25, the whole ladder: the checks of its exercises."""
