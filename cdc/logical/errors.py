"""What is wrong with a cluster's logical tables. Each stops the stream; none is guessed around."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InvalidError, TransientError
from cdc.schema.table import Table


class LogicalNamesInvalid(InvalidError):
    """A pattern of physical names cannot be read, or no table has such a name."""

    code = "TG:ErrLogicalNamesInvalid"


class LogicalTablesDiffer(InvalidError):
    """Parts of one logical table are defined differently where its log is to begin."""

    code = "TG:ErrLogicalTablesDiffer"


class ShapeUnclear(DefiniteError):
    """Rows of a part of a logical table cannot be told in that table's definition."""

    code = "TG:ErrShapeUnclear"


class ShapeValueLost(DefiniteError):
    """A value of a row has no place in the logical definition of its column."""

    code = "TG:ErrShapeValueLost"


class MarkMalformed(DefiniteError):
    """A mark of a schema change is not what a coordinator writes, or not the same on all nodes."""

    code = "TG:ErrDDLMarkMalformed"


class MarkRefused(DefiniteError):
    """A schema change of a cluster that consumers of one server cannot be told."""

    code = "TG:ErrDDLMarkRefused"


class PartsChanging(TransientError):
    """A part of a logical table is not defined as the table is: a change goes from part to part."""

    code = "TG:ErrLogicalPartsChanging"


class LogicalTableKeyless(InvalidError):
    """Rows of a logical table without a key are to be copied, whose parts have no common moment."""

    code = "TG:ErrLogicalTableKeyless"


def check_keyed(table: Table) -> None:
    """Raises LogicalTableKeyless: nothing tells a row that was read from one that came since."""
    if not table.handle_key:
        raise LogicalTableKeyless(
            "it has no key, and its parts cannot be read as of one moment",
            object=table.full_name,
            hint="add a key, or leave it out of snapshot.tables",
        )
