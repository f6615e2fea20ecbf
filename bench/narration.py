"""What a demo prints while it runs, the commands that it runs as an operator would, its end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

from tests import servers
from tests.e2e.capture_process import CaptureProcess


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def command(capture: CaptureProcess, *words: str) -> None:
    """Run ``cdc cli …`` and print the first line of its answer. Raises RuntimeError."""
    done = capture.cli(*words)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    tell(f"$ cdc cli {' '.join(words[:2])} …: {done.stdout.strip().splitlines()[0]}")


def exit_code(run: Callable[[ExitStack], bool]) -> int:
    """Run a demo, which puts what it starts on the stack; 0 if it says that all is proven."""
    # Ended from outside, it still leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            proven = run(stack)
    except (servers.Unavailable, servers.StartFailed) as error:
        tell(f"failed: {error}")
        return 1
    tell("proven" if proven else "NOT proven: see above")
    return 0 if proven else 1
