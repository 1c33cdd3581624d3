"""Chapter 6, tiling: its pictures, and the checks of its exercises."""
