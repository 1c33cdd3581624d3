"""Chapter 8, 1D register blocking: the checks of its exercises."""
