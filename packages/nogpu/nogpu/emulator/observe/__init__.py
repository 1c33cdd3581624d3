"""Those who watch a launch: counts, races, uninitialised reads, who wrote what."""
