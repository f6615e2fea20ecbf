"""A log that an upstream has left behind goes once another stands in its place; no other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.changelog import origin
from cdc.changelog.origin import Origin
from cdc.coord.anchors import Anchors
from cdc.coord.contract import Delete, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import UpstreamInfo
from cdc.server.left_logs import LeftLogs

KEYS = Keys()


class Ground:
    """A store and the log of upstream ``u``, which was left here and is the one so far."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedStore(folder / "meta.db", SystemClock())
        self.folder = folder / "log" / "u" / "0"
        self.folder.mkdir(parents=True)
        ours = Origin.new()
        origin.save(self.folder, ours)
        info = UpstreamInfo(name="u", uri="mysql://h").model_dump_json().encode()
        self.store.txn([], [Put(KEYS.upstream_info("u"), info)])
        self.anchors = Anchors(self.store, KEYS, "u")
        self.anchors.make_current(ours.log, "a", 0)
        self.ours = ours.log
        self.left = LeftLogs(self.store, KEYS, lambda name: folder / "log" / name / "0")
        self.left.add("u")

    def current(self, log: str) -> None:
        """Say that it is this log."""
        revision, _ = self.anchors.current()
        assert self.anchors.make_current(log, "b", revision)

    @property
    def there(self) -> bool:
        """Whether the log is there."""
        return self.folder.parent.exists()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.store.close()


def test_it_goes_when_another_stands_in_its_place(ground: Ground) -> None:
    ground.left.tidy(())
    # One that was disowned has no other in its place yet.
    ground.current("")
    ground.left.tidy(())
    assert ground.there
    assert ground.left
    ground.current("another")
    ground.left.tidy(())
    assert not ground.there
    assert not ground.left


def test_it_goes_with_its_upstream_whose_name_is_free_again(ground: Ground) -> None:
    ground.store.txn([], [Delete(KEYS.upstream_info("u"))])
    ground.left.tidy(())
    assert not ground.there


def test_what_comes_back_goes_on_with_it(ground: Ground) -> None:
    ground.left.tidy({"u"})
    ground.current("another")
    ground.left.tidy({"u"})
    assert ground.there
    assert not ground.left


class Again:
    """The capture after it was killed: it knows what lies there, and nothing else."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.left = LeftLogs(ground.store, KEYS, lambda name: folder / "log" / name / "0")

    def look(self) -> None:
        """What it does when it starts, and later."""
        self.left.find(["u", "never-here"])
        self.left.tidy(())


def test_what_lies_there_from_before_goes_when_another_was_made_since(
    ground: Ground, tmp_path: Path
) -> None:
    ground.left.note("u", ground.anchors.current()[0])
    again = Again(ground, tmp_path)
    for other in (ground.ours, "", "another"):
        again.look()
        assert ground.there
        assert again.left
        ground.current(other)
    again.look()
    assert not ground.there


def test_what_lies_there_from_before_stays_where_that_is_not_certain(
    ground: Ground, tmp_path: Path
) -> None:
    revision, _ = ground.anchors.current()
    again = Again(ground, tmp_path)
    # Of an earlier version, or pulled by a capture that stood alone.
    ground.current("another")
    again.look()
    assert ground.there
    # The store was restored: it says another one, and did so before it came to this log.
    ground.left.note("u", revision + 100)
    again.look()
    assert ground.there
    # The store is another one, which has an upstream of this name.
    ground.left.note("u", revision)
    ground.store.txn([], [Put(KEYS.installation, b"other")])
    again.look()
    assert ground.there
    # The upstream was removed, or registered after the moment that the store was restored to.
    ground.left.note("u", revision)
    ground.store.txn([], [Delete(KEYS.upstream_info("u"))])
    Again(ground, tmp_path).look()
    assert ground.there
