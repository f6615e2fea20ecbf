"""A capture in answers; names as TiCDC's OpenAPI v2 (snake_case)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic import BaseModel, Field

from cdc.coord.messages import (
    CaptureInfo,
    UpstreamPlacement,
)


class CaptureOut(BaseModel):
    """One line of ``GET /captures``."""

    id: str
    is_owner: bool
    address: str
    cluster_id: str
    version: str
    is_drained: bool = Field(description="It was told to own nothing until it is started anew.")
    upstreams: list[str] = Field(description="The upstreams that are placed at it.")

    @classmethod
    def of(
        cls,
        info: CaptureInfo,
        owner: str,
        drained: Collection[str],
        placed: Iterable[UpstreamPlacement] = (),
    ) -> CaptureOut:
        """From the store's messages; ``owner`` and ``drained`` are ids."""
        return cls(
            id=info.id,
            is_owner=info.id == owner,
            is_drained=info.id in drained,
            address=info.address,
            cluster_id=info.cluster_id,
            version=info.version,
            upstreams=sorted(p.upstream for p in placed if p.capture == info.id),
        )


class Drained(BaseModel):
    """``PUT /captures/{id}/drain``: how many tables the capture still delivers."""

    current_table_count: int
