"""URIs of file sinks: what is taken, what is refused, by which name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import InvalidError
from cdc.base.ids import FeedId
from cdc.base.nodes import qualified
from cdc.schema.table import Table
from sink.dispatch.target import RouteConflict
from sink.file.driver import FileDriver
from sink.file.errors import FileFolderTaken, FileFolderUnusable
from sink.file.ledger import FileLedger
from sink.file.settings import FileSettings
from sink.open import open_sink

URI = "file:///data/a%20b?protocol=canal-json"


def test_a_full_uri() -> None:
    s = FileSettings.parse(
        "file:///data/x?protocol=canal-json&flush-interval=2s&file-size=1048576"
        "&enable-tidb-extension=true&worker-count=16"
    )
    assert (s.folder, s.flush_interval, s.file_size) == (Path("/data/x"), 2.0, 1 << 20)
    assert s.enable_tidb_extension
    assert FileSettings.parse(URI).folder == Path("/data/a b")
    section = {"cloud_storage_config": {"flush-interval": "500ms"}, "protocol": "canal-json"}
    assert FileSettings.parse("file:///d", section).flush_interval == 0.5
    assert open_sink("FILE:///d?protocol=canal-json", {}).interval_s == 5.0


@pytest.mark.parametrize(
    ("uri", "config", "code"),
    [
        ("file:///d", {}, "TG:ErrSinkUnknownProtocol"),
        ("file:///d?protocol=csv", {}, "TG:ErrSinkProtocolNotSupported"),
        ("file:///d?protocol=debezium", {}, "TG:ErrSinkProtocolNotSupported"),
        ("file://host/d?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("file:///?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("file:///a/../b?protocol=canal-json", {}, "TG:ErrSinkURIInvalid"),
        ("file:///d?protocol=canal-json&file-size=10", {}, "TG:ErrSinkURIInvalid"),
        ("file:///d?protocol=canal-json&flush-interval=soon", {}, "TG:ErrSinkURIInvalid"),
        ("file:///d?protocol=canal-json&flush-intervall=5s", {}, "TG:ErrSinkUnknownOption"),
        (URI, {"dispatchers": [{"matcher": ["*.*"]}]}, "TG:ErrSinkOptionNotSupported"),
        (URI, {"cloud-storage-config": {"file-expiration-days": 3}},
         "TG:ErrSinkOptionNotSupported"),
    ],
)  # fmt: skip
def test_what_is_refused(uri: str, config: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidError) as raised:
        FileSettings.parse(uri, config)
    assert raised.value.code == code
    assert raised.value.hint


def _driver(folder: Path) -> FileDriver:
    return FileDriver(FileSettings.parse(f"file://{folder}?protocol=canal-json"))


def test_a_folder_is_of_one_changefeed(tmp_path: Path) -> None:
    one, again = FeedId("here", "one", 1), FeedId("there", "one", 7)
    FileLedger(tmp_path, one).claim(1)
    assert list(_driver(tmp_path).admit(again)) == [one]
    with pytest.raises(FileFolderTaken, match="changefeed one delivers"):
        _driver(tmp_path).admit(FeedId("here", "two", 1))
    _driver(tmp_path).forget(one, 2)
    assert list(_driver(tmp_path).admit(FeedId("here", "two", 1))) == []


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileFolderUnusable, match="Not a directory"):
        _driver(tmp_path / "file/below").verify([], mariadb=True)
    _driver(tmp_path / "made/for/it").verify([], mariadb=True)
    assert os.listdir(tmp_path / "made/for/it") == []


def test_tables_of_two_nodes_with_one_name_are_refused_unless_they_are_merged(
    tmp_path: Path,
) -> None:
    tables = [Table(qualified(node, "shop"), "t", ()) for node in ("n1", "n2")]
    uri = f"file://{tmp_path}?protocol=canal-json"
    with pytest.raises(RouteConflict, match="n2:shop"):
        open_sink(uri, {}).driver().verify(tables, mariadb=True)
    open_sink(uri, {}, merging=True).driver().verify(tables, mariadb=True)
