"""Chapter 14, Tensor Cores through WMMA: the checks of its exercises."""
