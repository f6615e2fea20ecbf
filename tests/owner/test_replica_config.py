"""A changefeed's configuration as users write it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from cdc.base.errors import InvalidError
from cdc.base.refusals import SeveralReasons
from owner.replica_config import ConfigInvalid, ConfigNotSupported, ConfigUnknownKey, check


def test_both_spellings_give_the_same() -> None:
    toml = tomllib.loads(
        """
        case-sensitive = true
        force-replicate = true
        changefeed-error-stuck-duration = "1h30m"
        [filter]
        rules = ["shop.*", "!shop.tmp_*"]
        [sink]
        protocol = "canal-json"
        only-output-updated-columns = true
        dispatchers = [{ matcher = ["shop.*"], partition = "index-value" }]
        """
    )
    json = {
        "case_sensitive": True,
        "force_replicate": True,
        "changefeed_error_stuck_duration": 5400,
        "filter": {"rules": ["shop.*", "!shop.tmp_*"]},
        "sink": {
            "protocol": "canal-json",
            "only_output_updated_columns": True,
            "dispatchers": [{"matcher": ["shop.*"], "partition": "index-value"}],
        },
    }
    assert check(toml) == check(json)
    assert check(json).model_dump() == check(check(json).model_dump()).model_dump()


def test_defaults() -> None:
    config = check({})
    assert config.filter.rules == ["*.*"]
    assert (config.case_sensitive, config.force_replicate) == (False, False)
    assert config.changefeed_error_stuck_duration == 1800


def test_sync_points() -> None:
    config = check({"enable-sync-point": True, "sync-point-interval": "30s"})
    assert (config.sync_interval_ms, config.sync_point_retention) == (30_000, 86_400)
    assert check({"sync_point_interval": "10m"}).sync_interval_ms == 0
    for wrong in ("500ms", "1.5s", "0s"):
        with pytest.raises(ConfigInvalid, match="sync-point-interval"):
            check({"enable_sync_point": True, "sync_point_interval": wrong})
    with pytest.raises(ConfigInvalid, match="sync-point-retention"):
        check({"enable_sync_point": True, "sync_point_retention": "59m"})


def test_what_asks_for_nothing_is_accepted() -> None:
    off = {
        "memory-quota": 1 << 30,
        "check_gc_safe_point": True,
        "enable-sync-point": False,
        "bdr-mode": False,
        "mounter": {"worker_num": 16},
        "consistent": {"level": "none"},
        "filter": {"rules": ["a.*"], "event-filters": [], "ignore-txn-start-ts": []},
        "integrity": {"integrity-check-level": "none"},
        "scheduler": None,
    }
    assert check(off).filter.rules == ["a.*"]
    # As TiCDC's documented request has it: with the keys of what is switched off.
    off["consistent"] = {"level": "none", "flush_interval": 0, "max_log_size": 64, "storage": ""}
    off["integrity"] = {"integrity-check-level": "none", "corruption-handle-level": "warn"}
    off["scheduler"] = {"enable_table_across_nodes": False, "region_threshold": 100_000}
    off |= {"sync_point_interval": "10m", "sync_point_retention": "24h"}
    assert check(off).filter.rules == ["a.*"]


def test_large_windows_may_be_delivered_by_all_captures() -> None:
    assert not check({}).scheduler.enable_table_across_nodes
    assert not check({"scheduler": {"region-threshold": 3}}).scheduler.enable_table_across_nodes
    # What TiCDC goes by, is none of ours: how large a window is decides.
    on = check({"scheduler": {"enable_table_across_nodes": True, "write_key_threshold": 1000}})
    assert on.scheduler.enable_table_across_nodes
    with pytest.raises(ConfigInvalid) as refused:
        check({"scheduler": {"enable-table-across-nodes": "yes"}})
    assert refused.value.object == "scheduler.enable-table-across-nodes"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"bdr-mode": True}, "bdr-mode"),
        ({"consistent": {"level": "eventual"}}, "consistent.level"),
        ({"consistent": {"storage": "s3://x"}}, "consistent.storage"),
        ({"integrity": {"corruption-handle-level": "warn"}}, "integrity.corruption-handle-level"),
        ({"scheduler": {"force-split": True}}, "scheduler.force-split"),
        ({"performance-mode": "low-latency"}, "performance-mode"),
    ],
)
def test_what_comes_later_is_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigNotSupported) as refused:
        check(given)
    assert refused.value.object == name
    # And what there is in its place.
    assert refused.value.hint.startswith(f"remove {name}; ")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"force-replicat": True}, "force-replicat"),
        ({"filter": {"rule": ["a.*"]}}, "filter.rule"),
        ({"mounter": {"workers": 3}}, "mounter.workers"),
        ({"filters": {}}, "filters"),
    ],
)
def test_unknown_keys_are_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigUnknownKey) as refused:
        check(given)
    assert name in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "given",
    [
        {"case-sensitive": "yes"},
        {"filter": {"rules": "a.*"}},
        {"filter": 3},
        {"sink": 3},
        {"changefeed-error-stuck-duration": "soon"},
        {"changefeed-error-stuck-duration": True},
        {"changefeed-error-stuck-duration": 0},
    ],
)
def test_wrong_types_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid):
        check(given)


def test_a_wrong_rule_is_refused() -> None:
    with pytest.raises(InvalidError) as refused:
        check({"filter": {"rules": ["a.b.c.d["]}})
    assert refused.value.code == "TG:ErrFilterRuleInvalid"


def test_all_that_is_wrong_is_told_with_its_place() -> None:
    def places(given: dict[str, Any]) -> list[str]:
        with pytest.raises(SeveralReasons) as refused:
            check(given)
        return [reason.object for reason in refused.value.reasons]

    form = {
        "bdr-mode": True,
        "colour": 1,
        "filter": {"ruels": []},
        "case-sensitive": "maybe",
        "sink": 1,
    }
    wrong = ["bdr-mode", "sink", "colour", "filter.ruels", "case-sensitive"]
    assert sorted(places(form)) == sorted(wrong)
    rules = {
        "filter": {
            "rules": ["a.*", "a.b.c.d[", "shop.["],
            "event-filters": [{"matcher": ["a.b["]}, {"matcher": ["*.*"], "ignore-sql": ["("]}],
            "ignore-txn-start-ts": [-1],
        },
        "shadow-table-rules": ["("],
        "sink": {"dispatchers": [{"matcher": ["a["]}, {"matcher": ["*.*"], "tpoic": "x"}]},
    }
    assert places(rules) == [
        "filter.rules[1]",
        "filter.rules[2]",
        "filter.event-filters[0].matcher[0]",
        "filter.event-filters[1].ignore-sql[0]",
        "filter.ignore-txn-start-ts[0]",
        "shadow-table-rules[0]",
        "sink.dispatchers[1].tpoic",
    ]


def test_the_filter_is_taken_whole() -> None:
    toml = """
        [filter]
        rules = ["shop.*"]
        ignore-txn-start-ts = [1, 2]
        ignore-txn-gtid = ["0-1-5"]
        [[filter.event-filters]]
        matcher = ["shop.worker"]
        ignore-event = ["insert"]
        ignore-sql = ["^drop", "add column"]
        ignore-delete-value-expr = "name = 'john'"
        ignore-insert-value-expr = "id >= 100"
        ignore-update-old-value-expr = "age < 18 or name = 'lili'"
        ignore-update-new-value-expr = "gender = 'male' and age > 18"
        ignore-update-only-columns = ["seen_at"]
        [sink]
        protocol = "canal-json"
        column-selectors = [{ matcher = ["shop.*"], columns = ["*", "!note"] }]
        [[sink.dispatchers]]
        matcher = ["shop.*"]
        target-schema = "archive"
        """
    config = check(tomllib.loads(toml))
    (rule,) = config.filter.event_filters
    assert rule.ignore_sql == ["^drop", "add column"]
    assert rule.ignore_update_only_columns == ["seen_at"]
    assert config.filter.ignore_txn_gtid == ["0-1-5"]
    assert check(config.model_dump()) == config
