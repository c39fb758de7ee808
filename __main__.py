"""`python -m fedmule`: the same as the command `fedmule`."""

import sys

from fedmule.simulator.cli import main

if __name__ == "__main__":
    sys.exit(main())
