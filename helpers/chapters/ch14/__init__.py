"""Chapter 14, autotuning: its pictures, and the checks of its exercises."""
