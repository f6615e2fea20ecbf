"""``cdc``: what the installed command runs. The rest is imported once it is known to be ours."""

from __future__ import annotations

import sys

from cdc.base import installed
from cdc.base.errors import TidegateError


def main() -> None:
    """Run the command line."""
    try:
        installed.check()
    except TidegateError as e:
        print(f"Error: {e}", file=sys.stderr)
        sys.exit(1)
    from cdc.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
