"""Chapter 1, your GPU: its pictures, and the checks of its exercises."""
