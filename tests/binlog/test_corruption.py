"""A damaged file ends in an error that names file and offset, whatever the damage."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.reader import BinlogReader
from cdc.binlog.verify import verify
from tests.binlog.sample import MARIADB, MYSQL, small


def test_the_sample_is_good(tmp_path: Path) -> None:
    """The control: undamaged files verify."""
    for version in (MYSQL, MARIADB):
        for crc32 in (True, False):
            path = tmp_path / "bin.000001"
            path.write_bytes(small(version, crc32=crc32))
            assert verify(path).transactions == (2 if "Maria" in version else 3)


@pytest.mark.parametrize("version", [MYSQL, MARIADB])
def test_truncated_at_every_byte(version: str, tmp_path: Path) -> None:
    """A file cut inside an event is an error; cut between events it is just shorter."""
    data, path = small(version), tmp_path / "bin.000001"
    path.write_bytes(data)
    bounds = {event.offset for event in BinlogReader(path)} | {len(data)}
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        if cut in bounds and cut > 4:
            verify(path)
            continue
        with pytest.raises(TidegateError, match=r"bin\.000001:\d+"):
            verify(path)


@pytest.mark.parametrize("version", [MYSQL, MARIADB])
def test_every_byte_flipped(version: str, tmp_path: Path) -> None:
    """With checksums no flipped bit passes, but the in-use flag that the server itself flips."""
    data, path = small(version), tmp_path / "bin.000001"
    dice = random.Random(7)
    for at in range(len(data)):
        bit = 1 << dice.randrange(8)
        if at == 4 + 17:
            bit = 2
        damaged = bytearray(data)
        damaged[at] ^= bit
        path.write_bytes(damaged)
        with pytest.raises(TidegateError, match=r"bin\.000001:\d+"):
            verify(path)


def test_without_checksums_damage_never_is_a_traceback(tmp_path: Path) -> None:
    """Damage may pass unseen there, but what is seen is one of our errors."""
    path, dice = tmp_path / "bin.000001", random.Random(8)
    for version in (MYSQL, MARIADB):
        data = small(version, crc32=False)
        for at in range(4, len(data)):
            damaged = bytearray(data)
            damaged[at] = dice.randrange(256)
            path.write_bytes(damaged)
            with contextlib.suppress(TidegateError):
                verify(path)
