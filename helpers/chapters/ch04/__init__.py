"""Chapter 4, the first kernel: its pictures, and the checks of its exercises."""
