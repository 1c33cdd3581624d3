"""Chapter 13, warp tiling: its pictures, and the checks of its exercises."""
