"""Chapter 16, slices of K: its picture, and the checks of its exercises."""
