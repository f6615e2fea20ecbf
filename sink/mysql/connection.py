"""Sessions at the target: PyMySQL with every setting that our statements depend on."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pymysql
import pymysql.cursors
from pydantic import SecretStr
from pymysql.constants import CLIENT

from cdc.source import tls
from cdc.source.login import PrivateLogin
from sink.mysql.errors import MysqlTlsFailed, map_error, number_of
from sink.mysql.settings import Checks, MysqlSettings

# Identifies AUTO_INCREMENT 0 as a value; strict modes would judge values that the upstream took.
EVENTS_SQL_MODE = "NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
# An idle session in a transaction ends after this, if our host vanished without a word.
_IDLE_S = 600
_LOCK_WAIT_S = 50
_ACCESS_DENIED = 1045
_UTC = "+00:00"
_PREPARE = 0x16
_STATEMENT_TEXT_MARIADB = "binlog_annotate_row_events"
_STATEMENT_TEXT_MYSQL = "binlog_rows_query_log_events"


@dataclass(frozen=True, slots=True)
class Target:
    """What we need to know of a server: ``version`` is its own text."""

    version: str
    server_id: int
    max_packet: int
    mariadb: bool

    @property
    def kind(self) -> str:
        """``mariadb`` or ``mysql``."""
        return "mariadb" if self.mariadb else "mysql"


class SinkSession:
    """One connection with our session variables set. Not thread-safe.

    ``run`` and ``rows`` let PyMySQL's errors pass: callers map them with what they know.
    """

    def __init__(self, settings: MysqlSettings) -> None:
        """Connect. Raises MysqlUnavailable, MysqlAccessDenied or MysqlTlsFailed."""
        self.settings = settings
        with mapped(settings.address):
            self._connection: Any = _connect(settings)
            try:
                self.target = self._prepare()
            except BaseException:
                self.close()
                raise

    @property
    def socket(self) -> Any:
        """The connection's socket."""
        return self._connection._sock

    def run(self, sql: str | bytes | bytearray, *args: Any) -> int:
        """Run a statement; rows matched. Bytes are sent as they are."""
        if isinstance(sql, str) and args:
            with self._connection.cursor() as cursor:
                return int(cursor.execute(sql, args))
        return int(self._connection.query(sql))

    def rows(self, sql: str, *args: Any) -> list[dict[str, Any]]:
        """Result of a query as dicts with lower-case keys."""
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(sql, args or None)
            return [{k.lower(): v for k, v in row.items()} for row in cursor.fetchall()]

    def prepare(self, sql: str) -> int:
        """Prepare a statement without result; its id for EXECUTE commands."""
        self._connection._execute_command(_PREPARE, sql)
        answer = self._connection._read_packet().get_all_data()
        number, parameters = struct.unpack_from("<I2xH", answer, 1)
        for _ in range(parameters + 1 if parameters else 0):
            self._connection._read_packet()
        return int(number)

    def write(self, packets: bytes | bytearray | memoryview) -> None:
        """Send whole commands as packets; ``reply`` reads their answers, one for each."""
        self._connection._write_bytes(packets)

    def reply(self, sequence: int) -> int:
        """Wait for the answer to a command without result; rows matched.

        ``sequence`` is the number that the answer's packet has: how many the command had.
        """
        self._connection._next_seq_id = sequence
        packet = self._connection._read_packet()
        if not packet.is_ok_packet():
            raise pymysql.err.InternalError(0, "an answer that no such command has")
        packet.advance(1)
        return int(packet.read_length_encoded_integer())

    def close(self) -> None:
        """Close the socket; the server rolls an open transaction back."""
        with suppress(Exception):
            self._connection._force_close()

    def _prepare(self) -> Target:
        settings = self.settings
        self.run(f"SET SESSION sql_mode = '{EVENTS_SQL_MODE}'")
        self.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.run("SET SESSION time_zone = %s", settings.time_zone or _UTC)
        waits = {"wait_timeout": _IDLE_S, "interactive_timeout": _IDLE_S}
        waits |= {"lock_wait_timeout": _LOCK_WAIT_S, "innodb_lock_wait_timeout": _LOCK_WAIT_S}
        for name, value in waits.items():
            self.run(f"SET SESSION {name} = {value}")
        for name, checks in (
            ("foreign_key_checks", settings.foreign_key_checks),
            ("unique_checks", settings.unique_checks),
        ):
            self.run(f"SET SESSION {name} = {0 if checks is Checks.OFF else 1}")
        if not settings.sql_log_bin:
            self.run("SET SESSION sql_log_bin = 0")
        found = self.rows(
            "SELECT @@version AS v, @@server_id AS s, @@max_allowed_packet AS p,"
            " @@version_comment AS c"
        )[0]
        target = Target(
            version=str(found["v"]),
            server_id=int(found["s"]),
            max_packet=int(found["p"]),
            mariadb="mariadb" in f"{found['v']} {found['c']}".lower(),
        )
        # The target's binlog would hold our statements' text beside the rows: half as much again.
        noted = _STATEMENT_TEXT_MARIADB if target.mariadb else _STATEMENT_TEXT_MYSQL
        with suppress(pymysql.err.OperationalError):
            # A right that the user may lack, on a variable that old servers do not have.
            self.run(f"SET SESSION {noted} = 0")
        return target


@contextmanager
def mapped(object: str) -> Iterator[None]:
    """Errors of PyMySQL and of its socket as ours, about ``object``."""
    try:
        yield
    except (pymysql.err.Error, OSError, EOFError) as error:
        raise map_error(error, object) from None


def _connect(settings: MysqlSettings) -> Any:
    try:
        return _log_in(settings, settings.given_password)
    except pymysql.err.OperationalError as error:
        decoded = settings.decoded_password
        if number_of(error) != _ACCESS_DENIED or decoded is None:
            raise
        # Many a plain password is valid base64 too, so the decoded one comes second.
        return _log_in(settings, decoded)


def _log_in(settings: MysqlSettings, password: SecretStr) -> Any:
    context = _tls_context(settings)
    connect_s = max(1, min(30, round(settings.timeout)))
    connection = PrivateLogin(
        insecure_login=settings.insecure_login,
        host=settings.host,
        port=settings.port,
        user=settings.user,
        password=password.get_secret_value(),
        ssl=context,
        ssl_disabled=context is None,
        connect_timeout=connect_s,
        # Whoever listens there without being a database never greets.
        read_timeout=connect_s,
        write_timeout=round(settings.write_timeout),
        autocommit=True,
        charset="utf8mb4",
        client_flag=CLIENT.FOUND_ROWS,
        program_name="tidegate",
    )
    connection._read_timeout = round(settings.read_timeout)
    return connection


def _tls_context(settings: MysqlSettings) -> ssl.SSLContext | None:
    """``None`` for plain text. Raises MysqlTlsFailed for files that cannot be used."""
    files = (settings.ssl_ca, settings.ssl_cert, settings.ssl_key)
    try:
        return tls.context(settings.ssl_mode, *files)
    except (OSError, ssl.SSLError) as e:
        raise MysqlTlsFailed(
            f"TLS files cannot be read: {e.strerror or type(e).__name__}",
            object="ssl-ca, ssl-cert, ssl-key",
            hint="give paths of readable PEM files",
        ) from None
