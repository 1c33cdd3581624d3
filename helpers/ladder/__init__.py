"""The ladder: what a rung is, all rungs, and how one is planned, launched and modelled.

Comes in: kernels/*.cu, matrices. Goes out: `Kernel`, `Geometry`, products, traces, closed formulas.
Read first: kernel.py (what a rung is), rungs.py (all of them), launch.py (from a call to C).
"""
