"""Folders of upstreams' logs: made for one registration, never deleted because of a name.

A log that the store does not know may be another cluster's, or that of a store that was lost or
restored; ledgers at targets hold its ts, and it cannot be made again. So a folder is removed only
while it bears the mark of a registration that has not ended, which nothing was pulled into.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from cdc.base.errors import InvalidError
from cdc.changelog.files import sync_folder

_MARK = "registering"


class UpstreamLogExists(InvalidError):
    """A log of this name lies in the data directory, and the store does not know it."""

    code = "TG:ErrUpstreamLogExists"


def make(folder: Path) -> None:
    """Make and mark the folder of a new log. Raises UpstreamLogExists if one is there."""
    if (folder / _MARK).exists():
        give_up(folder)
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        raise UpstreamLogExists(
            "a log of this name is there, of another --cluster-id or of a store that was lost",
            object=str(folder),
            hint="choose another name, or move the folder away",
        ) from None
    folder.mkdir(mode=0o700, parents=True)
    (folder / _MARK).touch()


def complete(folder: Path) -> None:
    """Take the mark away, durably: the registration is in the store."""
    try:
        (folder / _MARK).unlink()
    except FileNotFoundError:
        # The thread that begins to pull may have been quicker than the one that registers.
        return
    sync_folder(folder)


def give_up(folder: Path) -> None:
    """Remove a folder that still bears its mark; the mark goes last."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name != _MARK:
            entry.unlink()
    (folder / _MARK).unlink()
    folder.rmdir()


def set_aside(folder: Path) -> None:
    """Make room for a log that takes the place of this one, which stays until that one stands.

    One that has taken its place before, and did not come to stand, goes.
    """
    if _aside(folder).exists():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(FileNotFoundError):
            folder.rename(_aside(folder))


def drop_aside(folder: Path) -> None:
    """Remove the log that was set aside, if there is one."""
    shutil.rmtree(_aside(folder), ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove the log of an upstream that the store no longer has."""
    shutil.rmtree(folder, ignore_errors=True)
    drop_aside(folder)


def _aside(folder: Path) -> Path:
    # No upstream's name has a dot.
    return folder.with_name(f"{folder.name}.before")
