"""Chapter 13, autotuning: its pictures, and the checks of its exercises."""
