"""Key hashes of real rows: those of one key are equal, those of two are not."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.murmur3 import murmur3
from cdc.rows.batch import RowBatch, RowImageNotFull
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.snapshot.images import RowImages
from cdc.snapshot.keys import Image, check_key_form, key_hashes
from cdc.snapshot.rows_reader import read_rows
from cdc.snapshot.select_list import SESSION
from tests import seeds
from tests.codec.binlog_rows import locate_file, table_of
from tests.snapshot.logged_rows import in_file

_COLUMNS = "(pad varchar(300), a varchar(40), n int null, b varbinary(20), v text)"
_ROWS = 3000


def _hash(text: bytes) -> str:
    first, second = murmur3(np.frombuffer(text, np.uint8), 0, len(text), np.uint64(0))
    return f"{int(first):016x}{int(second):016x}"


def test_published_hashes() -> None:
    """Values of the algorithm's own test programs."""
    assert _hash(b"") == "0" * 32
    assert _hash(b"hello") == "cbd8a7b341bd9b025b1e906a48ae1d19"
    fox = b"The quick brown fox jumps over the lazy dog"
    assert _hash(fox) == "e34bbc7bbc071b6c7a433ca9c49a9347"


def _literal(value: bytes | int | None) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "null" if value is None else str(value)


def _keys(rng: random.Random) -> list[tuple[Any, ...]]:
    # Neighbours whose bytes are the same when they are put behind each other.
    keys: list[tuple[Any, ...]] = [
        (b"", None, b""),
        (b"", 0, b""),
        (None, 0, None),
        (b"ab", 1, b"c"),
    ]
    keys += [(b"a", 1, b"bc"), (b"", 1, b"abc"), (b"abc", 1, b""), (b"abc", 1, None)]
    while len(keys) < 300:
        a = bytes(rng.choices(b"ab", k=rng.randrange(41)))
        keys.append((a, rng.choice([None, rng.randrange(3)]), rng.randbytes(rng.randrange(3))))
    return list(dict.fromkeys(keys))


def _logged(server: Any, schema: str, rng: random.Random) -> tuple[RowBatch, list[tuple[Any, ...]]]:
    """Rows of inserts, updates and deletes, and each row's key: before, and after."""
    keys = _keys(rng)
    chosen = [rng.choice(keys) for _ in range(_ROWS)]
    with server.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run(f"create database {schema} character set latin1")
        run(f"use {schema}")
        run(f"create table t {_COLUMNS}")
        run("flush binary logs")
        rows = ",".join(
            f"('{'p' * rng.randrange(300)}', {', '.join(map(_literal, key))}, {i})"
            for i, key in enumerate(chosen)
        )
        run(f"insert into t values {rows}")
        run("update t set v = concat(v, '!'), pad = 'x'")
        run("delete from t")
    return locate_file(server.binlogs()[-1], {f"{schema}.t": table_of(server, schema, "t")}), chosen


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_equal_keys_have_equal_hashes_and_no_others(
    database: Any, schema_name: str, name: str
) -> None:
    batch, chosen = _logged(database(name), schema_name, random.Random(seeds.seed()))
    kinds = batch.refs[:, L.R_KIND] & L.KIND_MASK
    before = key_hashes(batch, [3, 1, 2], Image.BEFORE)
    after = key_hashes(batch, [1, 2, 3], Image.AFTER)
    assert not before[kinds == L.KIND_INSERT].any()
    assert not after[kinds == L.KIND_DELETE].any()
    found = {}
    for hashes, kind in (
        (after, L.KIND_INSERT), (before, L.KIND_UPDATE), (after, L.KIND_UPDATE),
        (before, L.KIND_DELETE),
    ):  # fmt: skip
        these = list(map(tuple, hashes[kinds == kind].tolist()))
        assert len(these) == _ROWS
        for key, value in zip(chosen, these, strict=True):
            assert found.setdefault(key, value) == value
    assert len(set(found.values())) == len(found) > 200
    assert (0, 0) not in found.values()


def test_a_column_that_is_no_key_does_not_count_and_one_more_does(
    mysql: Any, schema_name: str
) -> None:
    batch, _ = _logged(mysql, schema_name, random.Random(seeds.seed()))
    updates = batch.only(batch.refs[:, L.R_KIND] == L.KIND_UPDATE)
    for columns, same in (([1, 2, 3], True), ([1, 2, 3, 4], False)):
        before, after = (key_hashes(updates, columns, which) for which in Image)
        assert (before == after).all(axis=1).all() == same


def test_an_image_without_its_key_is_an_error_by_name(mysql: Any, schema_name: str) -> None:
    with mysql.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run(f"create database {schema_name}")
        run(f"use {schema_name}")
        run("create table t (id int primary key, g int generated always as (id) virtual)")
        run("flush binary logs")
        run("set binlog_row_image = 'minimal'")
        run("insert into t (id) values (1)")
        run("delete from t")
    batch = locate_file(
        mysql.binlogs()[-1], {f"{schema_name}.t": table_of(mysql, schema_name, "t")}
    )
    assert key_hashes(batch, [0], Image.BEFORE)[1].any()
    with pytest.raises(RowImageNotFull, match="key columns"):
        key_hashes(batch, [0, 1], Image.BEFORE)


def test_a_key_in_the_form_of_old_servers_is_refused(mariadb: Any, schema_name: str) -> None:
    """Its bytes in the log are not those made of SELECT, until the table is written anew."""
    with mariadb.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        for statement in (*SESSION, f"create database {schema_name}", f"use {schema_name}"):
            run(statement)
        run("set global mysql56_temporal_format = off")
        try:
            run("create table t (at datetime primary key)")
        finally:
            run("set global mysql56_temporal_format = on")
        table = table_of(mariadb, schema_name, "t")
        for found in (False, True):
            run("flush binary logs")
            run(f"insert into t values ('2026-01-02 03:04:0{int(found)}')")
            path = mariadb.binlogs()[-1]
            images = RowImages(table, "mariadb")
            sql = "select * from t order by at desc limit 1"
            read = [e for block in read_rows(connection, sql) for e in images.events(block)]
            batches = [locate_file(data, {table.full_name: table})
                       for data in (path, b"\xfebin" + b"".join(read))]  # fmt: skip
            one, other = (key_hashes(batch, [0], Image.AFTER) for batch in batches)
            assert (one == other).all() == found
            stored = in_file(path)[table.full_name].stored
            if found:
                check_key_form(table, table.handle_key, stored)
            else:
                with pytest.raises(ColumnTypeNotSupported, match="form of before MySQL"):
                    check_key_form(table, table.handle_key, stored)
            run("alter table t force")
