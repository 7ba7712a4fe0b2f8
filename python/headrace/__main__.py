"""``python -m headrace`` is the same as the console script."""

import sys

from headrace.cli import main

sys.exit(main())
