"""book/*.md to book/*.ipynb: the exporter, and the run whose outputs a notebook carries.

Comes in: pages in MyST. Goes out: notebooks. Read first: exporting.py, running.py, commands.py.
"""
