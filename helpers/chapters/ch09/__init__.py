"""Chapter 9, 2D register blocking: the checks of its exercises."""
