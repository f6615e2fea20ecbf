"""Xids that are in use: against a dict, and out of statements as the servers write them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cdc.binlog.xa import Xid, parse_statement
from cdc.kernels import xids as X  # noqa: N812
from cdc.source.xid_table import XidTable
from tests import seeds

_WORDS = {"START": X.START, "END": X.END, "COMMIT": X.COMMIT, "ROLLBACK": X.ROLLBACK}


def _xid(rng: random.Random) -> Xid:
    # Few, so that they are used again, and such that differ only in where their parts are cut.
    parts = rng.choice([(b"ab", b"c"), (b"a", b"bc"), (b"", b"abc"), (rng.randbytes(64), b"")])
    if rng.random() < 0.7:
        parts = b"drds-%x" % rng.randrange(400), b"G%d" % rng.randrange(2)
    return Xid(rng.choice([0, 1, -1, 2**31 - 1, -(2**31)]), *parts)


def test_it_is_a_dict_of_what_is_in_use() -> None:
    rng = random.Random(seeds.seed())
    live: dict[Xid, int] = {Xid(1, b"older", b""): 7}
    table = XidTable({7: "'older'"})
    following = 8
    for _ in range(20_000):
        xid = _xid(rng)
        assert table.find(xid) == live.get(xid, -1)
        if rng.random() < 0.4:
            table.remove(xid)
            live.pop(xid, None)
        elif xid not in live:
            table.put(xid, following)
            live[xid] = following
            following += 1
    assert len(live) > 256, "it has grown"
    assert table.between(0, following) == {n: str(xid) for xid, n in live.items()}
    some = {n: str(xid) for xid, n in live.items() if following - 50 <= n < following}
    assert table.between(following - 50, following) == some


def _read(text: bytes) -> tuple[int, Xid]:
    state, scratch = np.zeros(X.STATE_SIZE, np.int64), np.zeros(X.WIDTH, np.uint8)
    # Nothing may be read behind the end.
    data = np.frombuffer(b"'" + text + b"',1", np.uint8)
    kind = X.read_statement(data, 1, 1 + len(text), state, scratch)
    raw = scratch[: state[X.LENGTH]].tobytes() if kind else bytes(6)
    format_id = int.from_bytes(raw[:4], "little", signed=True)
    return kind, Xid(format_id, raw[6 : 6 + raw[4]], raw[6 + raw[4] :])


@pytest.mark.parametrize("word", _WORDS)
def test_a_statement_of_a_server(word: str) -> None:
    rng = random.Random(seeds.seed())
    for _ in range(500):
        one = Xid(
            rng.randrange(1 << 31), rng.randbytes(rng.randrange(65)), b"\xff" * (rng.randrange(65))
        )
        text = f"XA {word} {one}"
        assert _read(text.encode()) == (_WORDS[word], one)
        whole = parse_statement(text)
        assert whole is not None
        assert whole[1] == one


def test_a_statement_of_another_form_is_left_to_others() -> None:
    rng = random.Random(seeds.seed())
    text = b"XA ROLLBACK X'61',X'62',1"
    others = [text[:n] for n in range(len(text) - 1)]
    others += [b"xa commit X'61',X'62',1", b"XA COMMIT 'a'", b"XA COMMIT X'61',X'62',1 ONE PHASE"]
    others += [
        b"XA COMMIT X'6',X'',1",
        b"XA COMMIT X'" + b"61" * 65 + b"',X'',1",
        b"XA RECOVER      ",
    ]
    others += [
        b"XA COMMIT X'61',X'62',4294967296",
        b"XA COMMIT X'61',X'62',",
        b"XA PREPARE X'61',X'',1",
    ]
    assert {_read(other)[0] for other in others} == {X.NONE}
    for _ in range(5_000):
        changed = bytearray(text)
        changed[rng.randrange(len(text))] = rng.randrange(256)
        kind, xid = _read(bytes(changed))
        if kind:
            known = parse_statement(bytes(changed).decode("latin-1"))
            assert known is not None
            assert known[1] == xid
