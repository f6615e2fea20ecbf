"""Where the upstream has rows: ``gtid``, ``file``, ``pos`` and ``row`` of ``source``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdc.kernels import debezium_layout as D  # noqa: N812
from cdc.kernels import row_places
from cdc.rows.batch import RowBatch
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, no_rows
from cdc.rows.transactions import RunTransactions
from sink.codec.json_text import json_text


class UpstreamNames(NamedTuple):
    """``table`` int64[:, U_SIZE], a row for each transaction, rising by ts; ``labels`` its blob.

    ``places`` int64[:, row_places.SIZE] go with the references of the rows.
    """

    table: Matrix
    labels: Bytes
    places: Matrix


NO_NAMES = UpstreamNames(no_rows(D.U_SIZE), NO_CONSTANTS, no_rows(row_places.SIZE))


def upstream_names(rows: RowBatch) -> UpstreamNames:
    """The names of the transactions of ``rows``; none of rows that no transaction has written.

    None of a cluster's either: a transaction there has one on each node.
    """
    if rows.snapshot or rows.transactions is None or rows.transactions.marks is not None:
        return NO_NAMES
    starts = np.ascontiguousarray(rows.transactions.runs.upstream_pos)
    return UpstreamNames(*_names(rows.transactions), rows.places(starts))


def _names(transactions: RunTransactions) -> tuple[Matrix, Bytes]:
    runs = transactions.runs
    if not len(runs):
        return NO_NAMES.table, NO_NAMES.labels
    first = np.flatnonzero(np.diff(runs.commit_ts, prepend=runs.commit_ts[0] - 1))
    texts = Constants(NO_CONSTANTS)
    table = np.zeros((len(first), D.U_SIZE), np.int64)
    table[:, D.U_TS] = runs.commit_ts[first]
    table[:, D.U_SEQUENCE] = runs.gtid_seq[first]
    table[:, D.U_FILE] = runs.upstream_file[first]
    numbers = runs.gtid_source[first]
    for number in np.unique(numbers):
        if source := transactions.sources.get(int(number)):
            # Of MySQL a uuid, maybe with a tag; of MariaDB domain and server.
            text = f"{source}{':' if source.count('-') > 1 else '-'}".encode()
            table[numbers == number, D.U_SOURCE] = texts.add(text)
            table[numbers == number, D.U_SOURCE_LENGTH] = len(text)
    if transactions.binlog:
        text = json_text(f"{transactions.binlog}.")[1:-1].encode()
        named = table[:, D.U_FILE] >= 0
        table[named, D.U_BINLOG] = texts.add(text)
        table[named, D.U_BINLOG_LENGTH] = len(text)
    return table, texts.build()
