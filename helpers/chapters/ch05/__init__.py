"""Chapter 5, coalescing: its pictures, and the checks of its exercises."""
