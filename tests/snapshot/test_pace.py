"""How large chunks get, by a server that takes a known time for each row."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError

from cdc.coord.snapshot_config import SnapshotConfig, SnapshotMode
from cdc.snapshot.pace import ChunkPace
from tests import seeds


@pytest.mark.parametrize("rows_per_s", [400.0, 20_000.0, 90_000.0])
def test_chunks_come_to_take_the_time_that_is_wanted(rows_per_s: float) -> None:
    pace = ChunkPace(rows=5_000, target_s=2.0, least=100, most=1_000_000)
    for _ in range(12):
        pace = pace.measured(pace.rows, pace.rows / rows_per_s)
    assert pace.rows / rows_per_s == pytest.approx(2.0, rel=0.01)


def test_one_odd_chunk_changes_little() -> None:
    pace = ChunkPace(rows=5_000, target_s=2.0, least=100, most=1_000_000)
    assert pace.measured(5_000, 3600.0).rows == 2_500
    assert pace.measured(5_000, 0.0).rows == 10_000
    # Of the tail nobody knew how many it would be.
    assert pace.measured(0, 3600.0) == pace
    # Chunks that were planned before the pace changed speak of their own size.
    assert pace.measured(1_000, 2.0).rows == 1_000


def test_it_stays_within_its_bounds() -> None:
    chance = random.Random(seeds.seed())
    pace = ChunkPace(rows=5_000, target_s=2.0, least=100, most=10_000)
    for _ in range(1_000):
        pace = pace.measured(pace.rows, chance.choice((0.0, 1e-9, 0.5, 2.0, 9.0, 1e9)))
        assert 100 <= pace.rows <= 10_000


def test_the_table_of_a_changefeed() -> None:
    assert SnapshotConfig().mode is SnapshotMode.NONE
    given = {"mode": "initial", "tables": ["shop.*"], "where": "id > 3"}
    config = SnapshotConfig.model_validate(given)
    assert SnapshotConfig.model_validate_json(config.model_dump_json()) == config
    for wrong in (
        {"mode": "always"},
        {"chunk_row": 3},
        {"chunk_rows": 0},
        {"max_connections": 0},
        {"max_rows_per_second": -1},
        {"tables": []},
        {"tables": "shop.*"},
        {"where": " "},
    ):
        with pytest.raises(ValidationError):
            SnapshotConfig.model_validate(wrong)
