"""What a demo prints while it runs, and the commands that it runs as an operator would."""

from __future__ import annotations

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
