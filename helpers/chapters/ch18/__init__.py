"""Chapter 18, mma.sync: what it counts, and the checks of its exercises."""
