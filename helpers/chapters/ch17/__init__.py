"""Chapter 17, Tensor Cores through WMMA: the checks of its exercises."""
