"""What the store has can be looked at, and shows no secret."""

from __future__ import annotations

import json

from cdc.client import Access, Client
from tests.api.server_process import CdcServer
from tests.servers.database import Database

SECRET = "m3ta-Pl4nted"


def test_all_keys_are_shown_without_secrets(server: CdcServer, mysql: Database) -> None:
    mysql.execute(
        "DROP USER IF EXISTS 'meta'@'%'",
        f"CREATE USER 'meta'@'%' IDENTIFIED WITH mysql_native_password BY '{SECRET}'",
        "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'meta'@'%'",
        "DROP DATABASE IF EXISTS meta",
        "CREATE DATABASE meta",
        "CREATE TABLE meta.t (id INT PRIMARY KEY)",
    )
    uri = mysql.uri("meta", SECRET)
    made = server.api("POST", "/upstreams", {"name": "meta", "uri": uri})
    assert made.is_success, made.text
    body = {
        "changefeed_id": "meta-shown",
        "upstream": "meta",
        "sink_uri": "blackhole://",
        "replica_config": {"filter": {"rules": ["meta.*"]}},
    }
    made = server.api("POST", "/changefeeds", body)
    assert made.is_success, made.text
    token = server.api("POST", "/tokens", {"name": "meta", "role": "viewer"}).json()["token"]
    try:
        page = server.api("GET", "/unsafe/metadata?limit=10000").json()
        assert page["total"] == len(page["items"]) > 10
        found = {item["key"]: item["value"] for item in page["items"]}
        assert list(found) == sorted(found)
        (upstream,) = (v for k, v in found.items() if k.endswith("upstream/info/meta"))
        assert json.loads(upstream)["uri"] == uri.replace(SECRET, "******")
        assert all(i["revision"] > 0 for i in page["items"])
        (kept,) = (v for k, v in found.items() if k.endswith("/token/meta"))
        assert kept == "******"
        # A piece of a schema is compressed.
        assert any(v.endswith(" bytes)") for k, v in found.items() if "/log/schema/meta/" in k)
        assert SECRET not in json.dumps(page)

        part = server.api("GET", "/unsafe/metadata?contains=INFO/meta&limit=1").json()
        assert part["total"] >= len(part["items"]) == 1
        assert "info/meta" in part["items"][0]["key"]
        assert server.send("GET", "/api/v2/unsafe/metadata", token).status_code == 403

        done = server.cli("unsafe", "show-metadata", "--contains", "/upstream/info/meta")
        assert done.stdout.startswith("Key: /tidegate/cdc/default/")
        assert "******" in done.stdout
        assert SECRET not in done.stdout
        with Client(Access(server.url, token=server.token)) as client:
            (one,) = client.metadata("/upstream/info/meta")
        assert one.value == upstream
    finally:
        server.api("DELETE", "/tokens/meta")
        server.api("DELETE", "/changefeeds/meta-shown")
        server.api("DELETE", "/upstreams/meta")
