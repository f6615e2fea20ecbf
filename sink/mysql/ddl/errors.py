"""What can go wrong with a schema change at the target."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, TidegateError, TransientError
from cdc.base.redaction import user_data
from sink.mysql.errors import (
    MysqlAccessDenied,
    MysqlDeadlock,
    MysqlLockWait,
    MysqlReadOnly,
    MysqlStorage,
    is_lost,
    map_error,
    number_of,
)

_SKIP = "or, if it is meant to stay as it is, leave the statement out: `cdc cli ddl skip`"


class DDLTargetDiffers(DefiniteError):
    """The target shows neither the schema before a DDL nor the one behind it."""

    code = "TG:ErrDDLTargetDiffers"


class DDLNotTranslatable(DefiniteError):
    """The target's kind of server has no such thing as the DDL asks for."""

    code = "TG:ErrDDLNotTranslatable"


class DDLTargetRejected(DefiniteError):
    """The target refuses a DDL that the upstream took."""

    code = "TG:ErrDDLTargetRejected"


class DDLOutcomeUnknown(DefiniteError):
    """Whether a DDL that a crash cut off has happened cannot be seen at the target."""

    code = "TG:ErrDDLOutcomeUnknown"


class DDLStillRunning(TransientError):
    """A statement of an earlier owner still runs at the target."""

    code = "TG:ErrDDLStillRunning"


class DDLInterrupted(TransientError):
    """A DDL was killed, ran out of time or lost its connection; what it did is looked at next."""

    code = "TG:ErrDDLInterrupted"


# Killed, or out of time.
_INTERRUPTED = frozenset((1317, 1969, 3024))
_SYNTAX = frozenset((1064, 1193, 1235, 1273, 1115, 1286, 1479, 1911, 4161))
_HINTS = (
    ((1298,), "load the time zones into the target (mysql_tzinfo_to_sql)"),
    (
        (3750,),
        "GRANT SESSION_VARIABLES_ADMIN ON *.* to the sink's user, or SET GLOBAL"
        " sql_require_primary_key = 0 at the target",
    ),
    ((1050, 1060, 1061, 1826, 3822), f"the target has it already: drop it there, {_SKIP}"),
    (
        (1049, 1051, 1054, 1072, 1091, 1146, 1176),
        f"the target lacks what the statement names: make both sides the same, {_SKIP}",
    ),
    (
        (1062, 1022),
        "rows of the target collide under the new key: make them equal to the upstream's",
    ),
    (
        (1215, 1216, 1217, 1451, 1452, 1822, 1824, 1834, 3730, 1005),
        "the target's foreign keys forbid it: deliver all tables of the key, or drop it there",
    ),
    (
        (1048, 1138, 1264, 1265, 1292, 1366, 1406, 1690),
        "a row of the target does not fit: make the table's rows equal to the upstream's",
    ),
)


def ddl_error(error: BaseException, object: str, position: str, sql: str) -> TidegateError:
    """Our error for one that the target gave to a statement of a schema change.

    ``sql`` is what may be shown of the statement.
    """
    found = map_error(error, object, position=position)
    number = number_of(error)
    if isinstance(error, TidegateError) or is_lost(error):
        return found
    if number in _INTERRUPTED:
        return DDLInterrupted(
            found.message, object=object, position=position, hint="it is tried again"
        )
    if isinstance(found, MysqlAccessDenied):
        return MysqlAccessDenied(
            f"{found.message}; statement: {user_data(sql)}",
            object=object,
            position=position,
            hint="GRANT CREATE, ALTER, DROP, INDEX, INSERT, REFERENCES ON *.* (or on the delivered"
            " schemas) TO the sink's user",
        )
    if isinstance(found, _WORLD):
        return found
    message = f"{found.message}; statement: {user_data(sql)}"
    if number in _SYNTAX:
        return DDLNotTranslatable(
            message,
            object=object,
            position=position,
            hint=f"make the change at the target in its own words, {_SKIP}",
        )
    hint = next((text for numbers, text in _HINTS if number in numbers), "")
    return DDLTargetRejected(
        message,
        object=object,
        position=position,
        hint=hint or f"mend what the target says, {_SKIP}",
    )


_WORLD = (MysqlDeadlock, MysqlLockWait, MysqlReadOnly, MysqlStorage)
