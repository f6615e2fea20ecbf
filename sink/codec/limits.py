"""What all codecs do about messages that are large."""

from __future__ import annotations

from typing import Final

from cdc.rows.batch import RowBatch
from sink.errors import MessageTooLarge

FIRST_ROOM: Final = 1 << 16
"""Room beside the bytes of a batch, so that few batches end before their limit."""


def too_large(rows: RowBatch, row: int, size: int, limit: int) -> MessageTooLarge:
    """The error of ``rows.refs[row]``, whose message would have at least ``size`` bytes."""
    return MessageTooLarge(
        f"a message of {size} bytes is over the limit of {limit}",
        object=rows.row_name(row),
        position=rows.row_position(row),
        hint="raise max-message-bytes (and the broker's and topic's max.message.bytes)",
    )
