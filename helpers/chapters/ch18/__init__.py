"""Chapter 18, mma.sync: its pictures, and the checks of its exercises."""
