"""Chapter 15, a tile for every shape: the checks of its exercises."""
