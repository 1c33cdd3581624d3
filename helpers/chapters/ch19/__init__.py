"""Chapter 19, the whole ladder: the checks of its exercises."""
