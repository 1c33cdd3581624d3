"""What one page needs and no other: chNN/pictures.py draws for it, chNN/checks.py checks its exercises.

    from helpers.chapters.ch06 import pictures
    pictures.barriers()

A room of an appendix is called by its page; `facts` is for all of them. Charts and diagrams of general use are in `helpers.draw`; what a check is made of, in
`helpers.page.exercises`.
"""
