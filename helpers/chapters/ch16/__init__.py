"""Chapter 16, streams: the checks of its exercises."""
