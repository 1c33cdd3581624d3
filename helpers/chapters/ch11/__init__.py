"""Chapter 11, pipelining: its pictures, and the checks of its exercises."""
