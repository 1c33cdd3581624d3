"""Chapter 16, Hopper: its pictures, and the checks of its exercises."""
