"""The command line of tests.pretended: run one notebook on one machine, in this process."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

from tests.pretended import running
from tests.pretended.machines import MACHINES


def main():
    """Run a notebook; print what went wrong, and write all that the cells showed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--machine", choices=MACHINES, default="t4")
    parser.add_argument("--once", action="store_true", help="only on the machine as it is")
    parser.add_argument("--out", type=Path, help="a file for what the cells showed, pickled")
    given = parser.parse_args()
    running.pretend(MACHINES[given.machine])
    cells = running.code_cells(given.notebook)
    passes = {"own": running.once(cells)} if given.once else running.thrice(cells)
    if given.out:
        given.out.write_bytes(pickle.dumps(passes))
    for cell in passes["own"]:
        if cell.error or cell.stderr:
            print(f"--- {cell.source[:300]}\n*** {cell.error}\n{cell.stderr}")


if __name__ == "__main__":
    main()
