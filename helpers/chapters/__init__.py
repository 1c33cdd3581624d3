"""What one page needs and no other: chNN/pictures.py draws for it, chNN/checks.py checks answers.

    from helpers.chapters.ch06 import pictures
    pictures.barriers()

A room of an appendix is called by its page. Charts of general use are in `helpers.draw`, what a
check is made of in
`helpers.page.exercises`.

Comes in: the ladder, the record, the simulator's counts. Goes out: pictures, checks and sentences
of one page.
Read first: facts.py (what a sentence stands on), ch06/pictures.py, ch06/checks.py.
"""
