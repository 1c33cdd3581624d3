"""Chapter 12, warp tiling: its pictures, and the checks of its exercises."""
