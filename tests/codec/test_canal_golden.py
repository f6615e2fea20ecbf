"""Our canal-json with ``content-compatible`` against the real Canal's (``canal_golden.json``)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from sink.codec.canal.settings import CanalSettings
from tests.codec import debezium_script as script
from tests.codec.binlog_rows import canal_file, messages_of
from tests.codec.record_canal import GOLDEN, plain
from tests.codec.test_debezium import written_on

Made = dict[str, list[Any]]
_TYPES = {
    "every": {f"c{i}": kind for i, (kind, _) in enumerate(script.types())},
    "strict": {}, "pair": {}, "keyless": {},
    "by_unique": {"u": "binary(4)"},
    "by_time": {"d": "decimal(5,1)"},
}  # fmt: skip


@pytest.fixture(scope="module")
def golden() -> Made:
    tables: Made = json.loads(GOLDEN.read_text())["tables"]
    return {name: [m for m in found if not m["isDdl"]] for name, found in tables.items()}


def made_on(server: Any) -> Made:
    """Our messages of the script's rows on a server, by table."""
    data, tables = written_on(server)
    made: Made = {}
    for message in messages_of(canal_file(data, tables, CanalSettings(content_compatible=True))):
        for one in plain(message):
            made.setdefault(one["table"], []).append(one)
    return made


def _same(kind: str, ours: Any, theirs: Any) -> bool:
    """Whether two values of a column mean the same, but for what is meant to differ."""
    if ours is None or theirs is None:
        return ours is theirs
    if kind.startswith(("float", "double")):
        as_float = np.float32 if kind.startswith("float") else np.float64
        return as_float(ours) == as_float(theirs) and "E" not in ours
    if kind.startswith("decimal"):
        # Canal leaves out zeros of a 0.
        return Decimal(ours) == Decimal(theirs)
    if kind.startswith("binary("):
        return ours.rstrip("\0") == theirs
    if "character set" in kind and "\ufffd" in theirs:
        # It takes the bytes for those of its connection's character set.
        return "\ufffd" not in ours
    return type(ours) is type(theirs) and ours == theirs


def differences(golden: Made, made: Made, *, names: bool = True) -> Iterator[str]:
    """Where our messages are not Canal's; ``names``: as far as types are called the same."""
    for table, theirs in golden.items():
        ours, types = made.get(table, []), _TYPES[table]
        if len(ours) != len(theirs):
            yield f"{table}: {len(ours)} messages, not {len(theirs)}"
        for n, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
            where = f"{table} {n}"
            if mine.keys() != other.keys():
                yield f"{where}: members {sorted(mine)}"
            for member in ("database", "table", "isDdl", "type", "sql"):
                if mine[member] != other[member]:
                    yield f"{where}: {member} {mine[member]!r}"
            if set(mine["pkNames"] or ()) != set(other["pkNames"] or ()):
                yield f"{where}: pkNames {mine['pkNames']}"
            if names and mine["mysqlType"] != other["mysqlType"]:
                yield f"{where}: mysqlType {mine['mysqlType']}"
            for place in ("data", "old"):
                ((a,), (b,)) = (m[place] or [{}] for m in (mine, other))
                if list(a) != list(b):
                    yield f"{where}: columns {list(a)} not {list(b)}"
                yield from (
                    f"{where} {place} {c}: {a[c]!r} not {b.get(c)!r}" for c in a
                    if not _same(types.get(c, ""), a[c], b.get(c))
                )  # fmt: skip
            yield from (
                f"{where} sqlType {c}: {code} not {other['sqlType'][c]}"
                for c, code in mine["sqlType"].items()
                # Of NULL Canal says something else than of a value, and of TINYINT(1) BIT.
                if other["data"][0][c] is not None and types.get(c) != "tinyint(1)"
                if code != other["sqlType"][c]
            )


def test_messages_are_those_of_canal(golden: Made, database: Any) -> None:
    made = made_on(database("mysql-5.7"))
    assert list(differences(golden, made)) == []
    assert sum(map(len, made.values())) > 30

    def with_(table: str, change: Callable[[Any], Any]) -> list[str]:
        """What is seen where our messages of a table are changed."""
        other = copy.deepcopy(made)
        change(other[table])
        return list(differences(golden, other))

    # Negative controls.
    assert with_("pair", lambda m: m.pop())
    assert with_("pair", lambda m: m[0]["data"][0].update(a="2"))
    assert with_("pair", lambda m: m[2]["old"][0].update(b="b"))
    assert with_("every", lambda m: m[0]["sqlType"].update(c0=5))
    assert with_("every", lambda m: m[0]["mysqlType"].update(c0="tinyint"))
    assert with_("every", lambda m: m[1]["data"][0].update(c17="1.6"))
    assert with_("strict", lambda m: m[0].update(type="UPDATE"))


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7"])
def test_other_servers_have_the_same_messages(golden: Made, database: Any, name: str) -> None:
    """Newer servers call types otherwise: integers without a width."""
    assert list(differences(golden, made_on(database(name)), names=False)) == []
