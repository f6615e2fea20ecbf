"""What can go wrong at a MySQL or MariaDB target, as our five kinds, by the server's numbers.

Numbers: https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html and
https://mariadb.com/kb/en/mariadb-error-code-reference/
"""

from __future__ import annotations

import ssl

import pymysql

from cdc.base.errors import (
    DefiniteError,
    InternalError,
    InvalidError,
    TidegateError,
    TransientError,
)
from cdc.base.ids import FeedId
from cdc.base.redaction import user_data
from sink.errors import LayoutOutgrown, TargetConstraint, WindowTooLarge


class MysqlUnavailable(TransientError):
    """The server cannot be reached, went away or shuts down."""

    code = "TG:ErrMysqlUnavailable"


class MysqlDeadlock(TransientError):
    """The server chose our transaction as the victim of a deadlock."""

    code = "TG:ErrMysqlDeadlock"


class MysqlLockWait(TransientError):
    """A lock was not granted in time."""

    code = "TG:ErrMysqlLockWait"


class MysqlReadOnly(TransientError):
    """The target takes no writes; after a failover another server may."""

    code = "TG:ErrMysqlReadOnly"


class MysqlTransactionTooLarge(WindowTooLarge):
    """The target takes no transaction as large as the window's: the next one is smaller."""

    code = "TG:ErrMysqlTransactionTooLarge"


class MysqlCommitRefused(WindowTooLarge):
    """A plugin of the target refuses the commit: Group Replication does if it is too large."""

    code = "TG:ErrMysqlCommitRefused"


class MysqlStorage(TransientError):
    """The target's disk or table space is full."""

    code = "TG:ErrMysqlStorage"


class MysqlCommitLost(TransientError):
    """The connection was lost in COMMIT, and the ledger says that nothing of it holds."""

    code = "TG:ErrMysqlCommitLost"


class MysqlCommitUnknown(TransientError):
    """The connection was lost in COMMIT, and the ledger could not be asked."""

    code = "TG:ErrMysqlCommitUnknown"


class MysqlAccessDenied(InvalidError):
    """The user may not log in, or lacks a privilege."""

    code = "TG:ErrMysqlAccessDenied"


class MysqlTlsFailed(InvalidError):
    """TLS files cannot be used, or the server's certificate is not trusted."""

    code = "TG:ErrMysqlTlsFailed"


class MysqlLedgerInvalid(InvalidError):
    """The ledger table is not one that we can rely on."""

    code = "TG:ErrMysqlLedgerInvalid"


class MysqlLedgerLost(DefiniteError):
    """The target's ledger does not know the changefeed, though it has delivered before."""

    code = "TG:ErrMysqlLedgerLost"


class TargetTableMissing(DefiniteError):
    """The target has no such table or schema."""

    code = "TG:ErrTargetTableMissing"


class TargetNotEmpty(DefiniteError):
    """A table that rows are to be copied into has some already."""

    code = "TG:ErrTargetNotEmpty"


class TargetColumnMissing(DefiniteError):
    """The target's table lacks a column."""

    code = "TG:ErrTargetColumnMissing"


class TargetIncompatible(DefiniteError):
    """Rows cannot be applied to the target's table as they are."""

    code = "TG:ErrTargetIncompatible"


class TargetChanged(TransientError):
    """A table of the target has another definition than when it was checked: check it again."""

    code = "TG:ErrTargetChanged"


class TargetNotPlaced(LayoutOutgrown):
    """A table came after the last recovery, which gives tables their buckets."""

    code = "TG:ErrTargetNotPlaced"


class TargetDuplicateKey(DefiniteError):
    """The target has a row with this key already."""

    code = "TG:ErrTargetDuplicateKey"


class ShardKeyConflict(DefiniteError):
    """Two tables that are one at the target have a row with the same key."""

    code = "TG:ErrShardKeyConflict"


class TargetRowMissing(DefiniteError):
    """The target lacks the row that is to be changed."""

    code = "TG:ErrTargetRowMissing"


class TargetValueRejected(DefiniteError):
    """The target's column cannot hold the value."""

    code = "TG:ErrTargetValueRejected"


class TargetRowTooLarge(DefiniteError):
    """A row does not fit into one statement of the target."""

    code = "TG:ErrTargetRowTooLarge"


class TargetRejected(DefiniteError):
    """The target refuses a statement for another reason."""

    code = "TG:ErrTargetRejected"


class MysqlInternal(InternalError):
    """The deliverer is in a state that should be impossible."""

    code = "TG:ErrMysqlInternal"


_RECOVERS = "delivery recovers by itself; if it repeats, see what else writes to these tables"
DIVERGED = (
    "somebody else writes to the target, or it was not loaded from the start ts;"
    " make the row equal to the upstream's at this position"
)
_RULES: tuple[tuple[tuple[int, ...], type[TidegateError], str], ...] = (
    ((1213, 3101, 1637), MysqlDeadlock, _RECOVERS),
    ((1205, 3572), MysqlLockWait, _RECOVERS),
    (
        (1290, 1792, 1836, 4149),
        MysqlReadOnly,
        "SET GLOBAL read_only = 0, or give the address of the primary",
    ),
    (
        (3100,),
        MysqlCommitRefused,
        "smaller windows are tried; if it repeats, see the target's log: is it ONLINE in its group?"
        " does group_replication_transaction_size_limit take the largest transaction?",
    ),
    (
        # 8004 is TiDB's.
        (1197, 8004),
        MysqlTransactionTooLarge,
        "smaller windows are tried; if it repeats, raise max_binlog_cache_size of the target",
    ),
    ((1021, 1030, 1114, 1026, 3), MysqlStorage, "free space on the target"),
    (
        (1044, 1045, 1142, 1143, 1227, 1251, 1370, 1396, 1698, 2049, 2059, 2061),
        MysqlAccessDenied,
        "check user and password, and the grants that the documentation lists",
    ),
    ((1146, 1049, 1051), TargetTableMissing, "create the table at the target"),
    ((1054, 1072, 1136), TargetColumnMissing, "make both sides' columns the same"),
    ((1062, 1022, 1169, 1586), TargetDuplicateKey, DIVERGED),
    ((1032, 1176), TargetRowMissing, DIVERGED),
    (
        (1216, 1217, 1451, 1452, 1761, 1762, 3819, 4025),
        TargetConstraint,
        "see that all tables of the constraint are delivered, or drop it at the target",
    ),
    (
        (1048, 1264, 1265, 1292, 1366, 1367, 1406, 1416, 1690, 3140, 3854),
        TargetValueRejected,
        "make the column's type at the target the same as upstream",
    ),
    (
        (1105, 1535, 1610, 1677, 1847, 13146, 13147),
        TargetIncompatible,
        "make the table's definition at the target the same as upstream",
    ),
    (
        (1153, 1162, 1301),
        TargetRowTooLarge,
        "raise max_allowed_packet of the target",
    ),
)


def map_error(error: BaseException, object: str, *, position: str = "") -> TidegateError:
    """Our error for one of PyMySQL's or of its socket's, by number, else by class.

    A number that we do not know is definite where PyMySQL counts it as about data or SQL, else
    transient: the window is applied again from the ledger, so nothing is lost by trying.
    """
    if isinstance(error, TidegateError):
        return error
    number, text = number_of(error), _text(error)
    for numbers, ours, hint in _RULES:
        if number in numbers:
            # What the server says of rows has their values in it.
            said = user_data(text) if issubclass(ours, DefiniteError) else text
            return ours(f"{said} ({number})", object=object, position=position, hint=hint)
    if isinstance(error, ssl.SSLError) or "SSL" in text or "CERTIFICATE" in text:
        return MysqlTlsFailed(text, object=object, hint="check ssl-ca, ssl-cert and ssl-key")
    about_data = (
        pymysql.err.IntegrityError,
        pymysql.err.DataError,
        pymysql.err.ProgrammingError,
        pymysql.err.NotSupportedError,
    )
    if isinstance(error, about_data):
        return TargetRejected(
            f"{user_data(text)} ({number})",
            object=object,
            position=position,
            hint="see the target's log",
        )
    said = f"{text} ({number})" if number else text
    return MysqlUnavailable(
        said, object=object, hint="check that the server runs and can be reached"
    )


def ledger_lost(feed: FeedId, address: str) -> MysqlLedgerLost:
    """The error of a server that is not the one that this changefeed has delivered to."""
    return MysqlLedgerLost(
        "tidegate.ledger knows nothing of this changefeed, which has delivered already",
        object=f"changefeed {feed}, target {address}",
        hint="give the address of the server that has it, or load this one anew and resume with"
        " --overwrite-checkpoint-ts",
    )


def number_of(error: BaseException) -> int:
    """The server's or client's error number, 0 without one."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def is_lost(error: BaseException) -> bool:
    """Whether the connection broke, so that the fate of the last statement is not known."""
    if isinstance(error, OSError | EOFError | pymysql.err.InterfaceError):
        return True
    # Server gone, lost, shutdown, killed; and what the server says as it closes the connection.
    return isinstance(error, pymysql.err.MySQLError) and number_of(error) in _LOST


_LOST = frozenset((0, 1053, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927))
_LOST |= frozenset((2000, 2002, 2003, 2006, 2013, 2014, 2027, 2055, 3169, 4031))


def _text(error: BaseException) -> str:
    if isinstance(error, pymysql.err.MySQLError) and len(error.args) > 1 and error.args[1]:
        return str(error.args[1])[:500]
    return f"{type(error).__name__}: {error}"[:500]
