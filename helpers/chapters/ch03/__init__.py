"""Chapter 3, the CPU: its pictures, and the checks of its exercises."""
