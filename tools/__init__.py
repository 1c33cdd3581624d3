"""Tools of the project itself: nothing that a page or a reader imports."""
