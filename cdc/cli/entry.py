"""``cdc``: what the installed command runs. The rest is imported once it is known to be ours."""

from __future__ import annotations

import gc
import os
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
    # Of what a command takes to start a tenth is pydantic's look for plugins in all that is
    # installed, and a tenth the look for garbage among what is loaded.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    if sys.argv[1:2] == ["server"]:
        # A server asks no other for anything before it delivers.
        from cdc.cli.root import main as run
    else:
        from cdc.cli.main import main as run
    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    main()
