"""Chapter 23, cuBLAS: the checks of its exercises."""
