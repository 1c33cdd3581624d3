"""Chapter 12, the lane map: its pictures, and the checks of its exercises."""
