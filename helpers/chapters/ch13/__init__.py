"""Chapter 13, the registers of a loop: its pictures, and the checks of its exercises."""
