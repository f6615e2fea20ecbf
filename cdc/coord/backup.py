"""A backup of the embedded store, while it is in use, and a data directory that is made of one.

The store is all that cannot be had again: the log is pulled anew from an anchor of it, and how far
rows are delivered stands in the ledgers of the targets.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from cdc.base.errors import InvalidError


class BackupInvalid(InvalidError):
    """It is no whole backup of a store."""

    code = "TG:ErrBackupInvalid"


class BackupRefused(InvalidError):
    """What is to be backed up is not there, or where it should go something is already."""

    code = "TG:ErrBackupRefused"


def back_up(store: Path, to: Path) -> int:
    """Write the store as it is at one moment to a new file of mode 0600, durably; its keys' number.

    ``store`` may be in use by a server. Raises BackupRefused, BackupInvalid.
    """
    if not store.is_file():
        raise BackupRefused(
            "there is no embedded store",
            object=str(store),
            hint="give the server's --data-dir; an etcd is backed up by etcdctl snapshot save",
        )
    if store.stat().st_uid != os.geteuid():
        # SQLite makes files beside a store, which its server must be able to open.
        raise BackupRefused("belongs to another user", object=str(store), hint="run it as that one")
    return _copy(store, to)


def restore(backup: Path, data_dir: Path) -> int:
    """Make a new data directory that has the store of a backup; the number of its keys.

    Raises BackupRefused, BackupInvalid.
    """
    if not backup.is_file():
        raise BackupRefused("there is no such file", object=str(backup), hint="give a backup's")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(data_dir.iterdir()):
        raise BackupRefused(
            "is not empty", object=str(data_dir), hint="move away what is there, or choose another"
        )
    folder = data_dir / "store"
    folder.mkdir(mode=0o700)
    try:
        return _copy(backup, folder / "meta.db")
    except BaseException:
        (folder / "meta.db").unlink(missing_ok=True)
        folder.rmdir()
        raise


def _copy(source: Path, to: Path) -> int:
    beside = to.with_name(f"{to.name}.part")
    if to.exists():
        raise BackupRefused("is there already", object=str(to), hint="choose another file")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
        beside.chmod(0o600)
        with closing(sqlite3.connect(source)) as store, closing(sqlite3.connect(beside)) as made:
            store.backup(made)
            # One file, without a log of its own beside it.
            made.execute("PRAGMA journal_mode=DELETE")
            (sound,) = made.execute("PRAGMA integrity_check").fetchone()
            (count,) = made.execute("SELECT count(*) FROM kv").fetchone()
            made.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
        if sound != "ok":
            raise sqlite3.DatabaseError(sound)
        _sync(beside)
        beside.replace(to)
        _sync(to.parent)
    except sqlite3.DatabaseError as error:
        beside.unlink(missing_ok=True)
        raise BackupInvalid(
            str(error).splitlines()[0], object=str(source), hint="choose an older one"
        ) from None
    except OSError as error:
        raise BackupRefused(
            error.strerror or str(error), object=str(to), hint="choose another place"
        ) from None
    return int(count)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
