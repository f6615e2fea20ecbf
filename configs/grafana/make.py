"""The dashboards as code: ``make dashboards`` writes the JSON files beside this one.

What a metric means is in docs/metrics.md.
"""

from __future__ import annotations

import json
from pathlib import Path

from configs.grafana.delivery import CHANGEFEED, DDL, SINKS
from configs.grafana.operation import CAPTURES, LOG, OVERVIEW, SPARK
from configs.grafana.panels import Dashboard

HERE = Path(__file__).parent
DASHBOARDS = (OVERVIEW, CHANGEFEED, DDL, LOG, SINKS, SPARK, CAPTURES)


def text(dashboard: Dashboard) -> str:
    """The content of its file."""
    return json.dumps(dashboard.to_json(), indent=1) + "\n"


def main() -> None:
    """Write them all."""
    for dashboard in DASHBOARDS:
        (HERE / f"{dashboard.uid}.json").write_text(text(dashboard))


if __name__ == "__main__":
    main()
