"""Chapter 2, measuring: the checks of its exercises."""
