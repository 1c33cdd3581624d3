"""Chapter 20, the copy engine: its pictures, and the checks of its exercises."""
