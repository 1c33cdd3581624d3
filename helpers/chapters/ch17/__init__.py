"""Chapter 17, cuBLAS: the checks of its exercises."""
