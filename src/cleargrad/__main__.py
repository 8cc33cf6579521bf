"""`python -m cleargrad` is the command line. Read next: cli/__init__.py."""

import sys

from cleargrad.cli import main

sys.exit(main())
