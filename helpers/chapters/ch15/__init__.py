"""Chapter 15, a tile for every shape: its pictures, and the checks of its exercises."""
