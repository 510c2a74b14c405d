"""Start of the command ``blockbasis``: an interrupt while the libraries are imported ends it without a traceback.

It stands outside of the package, since the import of anything in the package imports the libraries, for a second.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Import and run the command line."""
    try:
        from blockbasis.__main__ import main as command
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    command()
