"""Chapter 21, wgmma: its pictures, and the checks of its exercises."""
