"""Tools of the project itself: nothing that a page or a reader imports.

Comes in: the house's own files. Goes out: notebooks, corpora, verdicts about the tests and the
essays.
Read first: notebooks/README.md, mutation.py (do the tests see one-line faults), essays.py (do
chapters read well).
"""
