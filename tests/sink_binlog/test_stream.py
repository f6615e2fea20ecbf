"""What the servers' own tools make of the files is the upstream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.binlog.tool import compare_with_tool
from tests.consumer.same import facts
from tests.sink_binlog.replay import deliver, files_of, printed, replay
from tests.sink_binlog.written import OTHER, RULES, SCHEMA, Written, gtids

pytestmark = pytest.mark.real


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    """Return the log of one server."""
    db = request.getfixturevalue(request.param)
    yield Written(db, tmp_path_factory.mktemp("log") / "log")
    db.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", f"DROP DATABASE IF EXISTS {OTHER}")


def _visible(found: dict[str, Any]) -> dict[str, Any]:
    kept = {what: rows for what, rows in found.items() if what != "rows of hidden"}
    return {w: [r for r in rows if r[:1] != ("hidden",)] for w, rows in kept.items()}


def test_the_files_alone_give_the_upstream(written: Written, tmp_path: Path) -> None:
    db, root = written.db, tmp_path / "out"
    deliver(written.folder, f"binlog://{root}?file-size=65536", RULES, written.start_ts)
    files = files_of(root)
    assert len(files) > 5, "files are as large as they should be"
    for file in (files[0], files[-1]):
        compare_with_tool(db, file)
    db.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
    replay(db, files)
    assert _visible(facts(db, SCHEMA)) == _visible(written.facts)
    text = printed(db, files)
    # Each under the upstream's name, in its order.
    names = gtids(db, files)
    assert len(names) == len(set(names)) > 150
    assert [n for n in written.gtids if n in set(names)] == names
    assert f"use `{OTHER}`" in text, "the database in which a statement ran"
    assert text.count(f"server v {written.db.version_text}") + text.count(
        written.db.version_text
    ), "the upstream's own version"
