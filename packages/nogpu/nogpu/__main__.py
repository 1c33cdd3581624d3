"""`python -m nogpu run my.cu`: see `nogpu.command`."""

import sys

from nogpu.command.line import main

if __name__ == "__main__":
    sys.exit(main())
