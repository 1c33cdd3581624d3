"""Record a GPU: times, counters, tiles and checks into data/measurements and data/validation.

Comes in: a request of the command line, a GPU, the files as they are. Goes out: those files, with
what they lacked. The classes of their entries are in helpers.record.entries, which pages read.
Read first: steps.py (what a campaign is made of), campaign.py (its one loop), sections/points.py
(what a section is).
"""
