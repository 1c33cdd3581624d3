"""Chapter 20, Hopper: its pictures, and the checks of its exercises."""
