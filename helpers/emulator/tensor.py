"""Matrix instructions of a warp: ldmatrix, mma.sync, wmma."""
