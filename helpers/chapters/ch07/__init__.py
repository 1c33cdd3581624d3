"""Chapter 7, occupancy, divergence and banks: the checks of its exercises."""
