"""Chapter 18, streams: the checks of its exercises."""
