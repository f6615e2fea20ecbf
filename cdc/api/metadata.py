"""``GET /api/v2/unsafe/metadata``: what the store has, as TiCDC shows its own, without secrets."""

from __future__ import annotations

import json

from fastapi import APIRouter

from cdc.api.answers import Page
from cdc.api.audited import shown
from cdc.api.metadata_models import StoredOut
from cdc.api.paging import AskedPart
from cdc.base.secrets import MASK
from cdc.coord.contract import StoredKey
from cdc.coord.keys import Keys
from cdc.server.capture import Capture


def router(capture: Capture) -> APIRouter:
    """The route over one capture."""
    routes = APIRouter(prefix="/unsafe", tags=["unsafe"])

    @routes.get("/metadata")
    def metadata(part: AskedPart) -> Page[StoredOut]:
        """Keys of the cluster, in their order; ``contains`` is a part of the key."""
        keys = capture.keys
        _, entries = capture.store.range(keys.cluster_prefix)
        asked = [entry for entry in entries if part.has(entry.key)]
        items = [
            StoredOut(key=entry.key, value=_value(entry, keys), revision=entry.mod_revision)
            for entry in part.of(asked)
        ]
        return Page(total=len(asked), items=items)

    return routes


def _value(entry: StoredKey, keys: Keys) -> str:
    if entry.key == keys.forwarding or entry.key.startswith(keys.token_prefix):
        # Signs what captures forward; digests of tokens.
        return MASK
    try:
        text = entry.value.decode()
    except UnicodeDecodeError:
        return f"({len(entry.value)} bytes)"
    try:
        return json.dumps(shown(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return str(shown(text))
