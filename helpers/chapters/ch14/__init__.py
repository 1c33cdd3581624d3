"""Chapter 14, a ring of tiles: its pictures, and the checks of its exercises."""
