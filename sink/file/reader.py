"""``python -m sink.file.reader FOLDER [SCHEMA [TABLE]]``: the messages of files, in order.

Files that are in their place are whole, and never change; their names sort in the order of a
table's history. So a reader of a table takes one file after the other, and remembers the last name
that it has taken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from sink.file.names import LEDGERS, PATTERN, folder, part


def tables(root: Path) -> Iterator[Path]:
    """Folders below a sink's folder that have files, by name: of tables, and of databases."""
    for schema in sorted(p for p in root.iterdir() if p.is_dir() and p.name != LEDGERS):
        for found in (schema, *sorted(p for p in schema.iterdir() if p.is_dir())):
            if any(found.glob(PATTERN)):
                yield found


def files(where: Path, after: str = "") -> list[Path]:
    """Files of a folder behind the one that is named ``after``, in order."""
    return sorted(p for p in where.glob(PATTERN) if p.name > after)


def messages(where: Path, after: str = "") -> Iterator[bytes]:
    """The messages of a folder behind that file, in order, without their line ends."""
    for file in files(where, after):
        yield from file.read_bytes().splitlines()


def main() -> int:
    """Print messages, a line each: of a table, of the tables of a schema, or of all."""
    if not 2 <= len(sys.argv) <= 4:
        print(__doc__, file=sys.stderr)
        return 2
    root, names = Path(sys.argv[1]), sys.argv[2:]
    if not root.is_dir():
        print(f"{root} is no folder", file=sys.stderr)
        return 1
    chosen = root / folder(names[0], names[1]) if len(names) == 2 else None
    for where in [chosen] if chosen is not None else tables(root):
        if not names or chosen is not None or where.relative_to(root).parts[0] == part(names[0]):
            for message in messages(where):
                sys.stdout.buffer.write(message + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
