"""The command line as ``python -m blockbasis``, and what to install where it cannot start."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line, or say that it is an extra."""
    try:
        from blockbasis.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"The command line needs {error.name}: pip install 'blockbasis[cli]'")
    except KeyboardInterrupt:  # while the libraries are imported, which takes a second
        sys.exit(128 + signal.SIGINT)
    app(prog_name="blockbasis")


if __name__ == "__main__":
    main()
