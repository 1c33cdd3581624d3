"""Chapter 22, the last ten percent: its pictures, and the checks of its exercises."""
