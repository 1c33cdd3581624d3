"""`python -m nogpu run my.cu`: one command for a file that nobody has prepared.

A file is joined with what it includes (`sources`), its host code is read (`syntax`) and followed
(`host`, with what `library` knows of CUDA) up to its launches; `settings` puts options, the file's
`//!` lines, those launches and guesses in their order; `session` runs and gathers; `shown` prints.
"""
