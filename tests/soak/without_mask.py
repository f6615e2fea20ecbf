"""``cdc`` with one thing taken away: its answers show a sink's URI as it was given."""

from __future__ import annotations

from typing import Any

from cdc.api import changefeed_models
from cdc.cli.main import main


def _unmasked(uri: str, *_: Any) -> str:
    return uri


changefeed_models.mask_uri = _unmasked

if __name__ == "__main__":
    main()
