"""Threads in lock step: masks, memory, scheduling, barriers, and what each instruction does."""
