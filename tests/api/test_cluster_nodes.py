"""Nodes of a cluster that a server pulls come and go, when its coordinator says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from cdc.base.position import Position
from cdc.changelog.reader import ChangeLog
from tests import seeds
from tests.api.server_process import without_spark
from tests.cluster.coordinator import OWN_TABLES, DistributedDatabase, Session
from tests.cluster.sharded import PATTERN, drop_parts
from tests.cluster.test_nodes_come_and_go import Shop
from tests.servers import Database
from tests.waiting import until


def _rows(folder: Path) -> int:
    with closing(ChangeLog.open(folder)) as log:
        runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
        ours = [
            n for n, entry in log.tables.items() if (entry.schema, entry.name) == ("shop", "orders")
        ]
        return int(runs.rows[[int(t) in ours for t in runs.table]].sum()) if len(runs) else 0


def test_a_node_is_added_and_another_is_removed(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    more = ["--innodb-lock-wait-timeout=20"]
    servers = [database("mariadb-11.4", options=[f"--server-id={n}", *more]) for n in (51, 52, 53)]
    for db in servers:
        drop_parts(db)
    cluster = DistributedDatabase(servers[:2], seeds.seed())
    cluster.create()
    shop = Shop(cluster)
    for node in (0, 1):
        shop.make_part(node)
    shop.session.heartbeat()
    with without_spark(tmp_path) as server:
        nodes = [{"name": f"n{i}", "uri": db.uri()} for i, db in enumerate(servers[:2], 1)]
        body = {"name": "shop", "kind": "cluster", "carrier": "commit-log", "nodes": nodes}
        answer = server.api("POST", "/upstreams", body | {"logical_tables": [PATTERN]})
        assert answer.status_code == 200, answer.text
        said = [one["what"] for one in answer.json()["findings"]]
        assert not [what for what in said if "no table is called" in what]
        wrong = {"logical_tables": ["{schema}_x#.{table}"], "name": "wrong"}
        answer = server.api("POST", "/upstreams", body | wrong)
        assert "no table is called as {schema}_x#.{table}" in str(answer.json()["findings"])
        folder = server.data_dir / "log" / "shop" / "0"

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = server.api("GET", "/upstreams/shop").json()
            return found

        def beating(on: list[int], there: Callable[[], bool]) -> Callable[[], bool]:
            def look() -> bool:
                shop.session.heartbeat(on)
                return there()

            return look

        def members() -> set[str]:
            return set(shown()["position"]["nodes"])

        until(beating([0, 1], lambda: "stand" in shown()["position"]), "the order begins", 60)
        shop.write([0, 1])
        until(beating([0, 1], lambda: _rows(folder) == len(shop.ids)), "rows of two", 60)
        servers[2].execute(*OWN_TABLES)
        cluster.nodes.append(servers[2])
        shop.make_part(2)
        answer = server.api(
            "POST", "/upstreams/shop/nodes", {"name": "n3", "uri": servers[2].uri()}
        )
        assert answer.status_code == 200, answer.text
        shop.write([0, 1])
        until(beating([0, 1], lambda: _rows(folder) == len(shop.ids)), "the third is not used", 60)
        assert members() == {"n1", "n2"}
        shop.session = Session(cluster, seeds.seed())
        until(beating([0, 1, 2], lambda: members() == {"n1", "n2", "n3"}), "it joins", 60)
        shop.write([0, 1, 2])
        until(beating([0, 1, 2], lambda: _rows(folder) == len(shop.ids)), "rows of three", 60)
        shop.session.heartbeat([1, 2])
        answer = server.api("DELETE", "/upstreams/shop/nodes/n1")
        assert answer.status_code == 200, answer.text
        shop.write([1, 2])
        until(
            beating([1, 2], lambda: [n["name"] for n in shown()["nodes"]] == ["n2", "n3"]),
            "n1 leaves",
            60,
        )
        until(beating([1, 2], lambda: _rows(folder) == len(shop.ids)), "all rows", 60)
        assert shown()["error"] is None
