"""Chapter 10, vectorised access: its pictures, and the checks of its exercises."""
