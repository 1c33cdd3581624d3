"""Chapter 17, Tensor Cores through WMMA: its picture, and the checks of its exercises."""
