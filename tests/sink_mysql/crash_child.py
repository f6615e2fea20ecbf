"""Delivers a pickled replay in small windows until it is killed: a process of the crash tests.

usage: crash_child URI EPOCH REPLAY LEDGER(yes|no)
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from cdc.base.position import START, Position
from sink.mysql.deliverer import TARGET, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.settings import MysqlSettings
from tests.codec.binlog_rows import TS
from tests.sink_mysql.replay import FEED

WINDOW = 7


def main(uri: str, epoch: str, path: str, ledger: str) -> None:
    settings = MysqlSettings.parse(f"{uri}/?worker-count=1")
    replay = pickle.loads(Path(path).read_bytes())
    found = MysqlDriver(settings).recover(FEED, int(epoch), 2, (), START).positions
    position = found.get((TARGET, 0), START)
    if ledger == "no":
        position = START
    done = max(position.ts, TS - 1)
    deliverer = MysqlDeliverer(settings, FEED, int(epoch))
    print("ready", flush=True)
    while done < replay.last:
        upto = min(done + WINDOW, replay.last)
        deliverer.begin()
        replay.send(deliverer, after=done, upto=upto)
        print("sent", flush=True)
        deliverer.commit({(TARGET, 0): Position(upto)})
        done = upto
    deliverer.close()
    print("end", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
