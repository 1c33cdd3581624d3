"""Labs of a class: kernels judged without trust, points by part, a folder of submissions graded.

Comes in: CUDA source text as data, labs/NAME/lab.toml, a course's secret. Goes out: points,
feedback, gradebooks.
Read first: judging/marking.py (a source is compiled, run, compared), labs/rubrics.py,
grading/judging.py.
"""
