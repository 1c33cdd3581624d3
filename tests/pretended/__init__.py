"""A machine that pretends to have another GPU, and a notebook that is run on it.

    python -m tests.pretended book/06_tiling.ipynb --machine t4 --out cells

`machines` says what the machine has; `site/` holds a `cupy` and a `cupyx` that come before the real
ones in that process alone, so that all of helpers/ runs as it does beside a GPU: kernels run in the
emulator, large products of matrices by NumPy, and times come from `clock`, which nothing else
follows. `running` runs the cells; `labels` looks for numbers that stand under another GPU's name.
"""
