"""Chapter 24, streams: the checks of its exercises."""
