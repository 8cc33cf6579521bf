"""`python -m cleargrad` is the command line."""

import sys

from cleargrad.cli import main

sys.exit(main())
