"""The change log of this version is read by those that follow, which write it as it is.

``log/`` does not change: what must change gets a new number, and this version's stays readable.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cdc.changelog import lines, names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.index_file import decode
from cdc.changelog.reader import ChangeLog
from cdc.changelog.verify import verify
from tests.changelog.logs import open_log
from tests.formats.sample import read_log, write_log

GOLDEN = Path(__file__).with_name("log")
SAID = json.loads(Path(__file__).with_name("log.json").read_text())
FILES = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*") if path.is_file())


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A copy of the golden log."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "kept"))


def test_what_the_first_version_wrote_is_read(kept: Path) -> None:
    assert read_log(kept) == SAID
    assert verify(kept) == []


def test_who_writes_on_knows_what_is_prepared(kept: Path) -> None:
    with open_log(kept) as writer:
        (left,) = writer.xids().items()
        assert left == (1, "X'6232',X'30',7")
        assert writer.prepared(1).rows.tolist() == [3]
        assert writer.source_id("0-1") == 0
        assert writer.table_id("shop", "orders", b"\x00" * 6 + b"map of orders") == 0


def test_files_are_written_as_the_first_version_wrote_them(tmp_path: Path) -> None:
    write_log(tmp_path)
    for name in FILES:
        now, then = (tmp_path / name).read_bytes(), (GOLDEN / name).read_bytes()
        if name.endswith(".index"):
            # Arrow may pad its messages otherwise one day.
            assert decode(now, whole=True).equals(decode(then, whole=True)), name
        else:
            assert now == then, name
    assert {"000001.binlog", "000002.index", names.MANIFEST, names.TABLES, names.XIDS} < {*FILES}


def test_another_version_of_the_manifest_is_refused(kept: Path) -> None:
    manifest = kept / names.MANIFEST
    (*_, last) = lines.scan(manifest.read_bytes())
    manifest.write_bytes(lines.encode(last.parse() | {"version": 2, "closed": []}))
    with pytest.raises(LogCorrupt, match="version 2"):
        ChangeLog.open(kept)
