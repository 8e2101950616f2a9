"""``python -m normkit``: the same as ``normkit``."""

from __future__ import annotations

import sys

from normkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
