"""Chapter 19, a ring for the Tensor Cores: its account of clocks, its picture, and the checks of
its exercises."""
