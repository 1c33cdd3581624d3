"""From the text of PTX to Python: parse, the table of opcodes, control flow, translation."""
