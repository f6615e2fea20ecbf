"""The sink URI and its options: TiCDC's names, unknown ones refused, passwords never shown."""

from __future__ import annotations

import base64

import pytest

from cdc.base.errors import InvalidError
from cdc.source.tls import SslMode
from sink.dispatch.rules import DispatcherInvalid
from sink.errors import SinkOptionNotSupported, SinkUnknownOption, SinkURIInvalid
from sink.mysql.settings import Apply, Atomicity, Checks, MysqlSettings

_SECRET = "p@ss:w/rd?"
_URI = "mysql://cdc:p%40ss%3Aw%2Frd%3F@db.example:3307/"


def test_ticdcs_uri() -> None:
    found = MysqlSettings.parse(
        f"{_URI}?worker-count=16&max-txn-row=256&transaction-atomicity=table&time-zone=Asia/Tokyo"
        "&read-timeout=90s&write-timeout=2m&timeout=5s&ssl-ca=/ca.pem&safe-mode=false"
    )
    assert (found.host, found.port, found.user) == ("db.example", 3307, "cdc")
    assert found.password.get_secret_value() == _SECRET
    assert found.worker_count == 16
    assert (found.read_timeout, found.write_timeout, found.timeout) == (90.0, 120.0, 5.0)
    assert found.transaction_atomicity is Atomicity.TABLE
    assert found.time_zone == "Asia/Tokyo"
    assert found.ssl_ca == "/ca.pem"
    assert found.apply is Apply.AUTO
    assert found.exactly_once
    assert found.address == "db.example:3307"


def test_section_and_uri() -> None:
    section = {
        "mysql-config": {"worker_count": 4, "enable-safe-mode": False, "read-timeout": "10s"},
        "transaction_atomicity": "global",
        "apply": "rows",
    }
    found = MysqlSettings.parse("mariadb+ssl://h/?apply=AUTO&foreign-key-checks=off", section)
    assert (found.apply, found.transaction_atomicity) == (Apply.AUTO, Atomicity.GLOBAL)
    assert (found.read_timeout, found.worker_count) == (10, 4)
    assert (found.user, found.port) == ("root", 3306)
    assert found.ssl_mode is SslMode.VERIFY_IDENTITY
    assert found.foreign_key_checks is Checks.OFF


def test_text_and_safe_mode() -> None:
    found = MysqlSettings.parse(f"{_URI}?apply=sql&safe-mode=true")
    assert (found.apply, found.safe_mode) == (Apply.SQL, True)


def test_base64_password() -> None:
    text = base64.b64encode("geheim ü".encode()).decode()
    found = MysqlSettings.parse(f"mysql://u:{text}@h/")
    assert found.decoded_password is not None
    assert found.decoded_password.get_secret_value() == "geheim ü"
    assert MysqlSettings.parse("mysql://u:no-base64!@h/").decoded_password is None


@pytest.mark.parametrize(
    ("query", "section", "error", "said"),
    [
        ("?worker-cont=1", {}, SinkUnknownOption, "unknown option worker-cont"),
        ("?worker-count=0", {}, SinkURIInvalid, "worker-count"),
        ("?aply=rows", {}, SinkUnknownOption, "did you mean apply"),
        ("?exactly-once=false&apply=rows", {}, SinkURIInvalid, "repeats rows"),
        ("?where-clause=x", {}, SinkOptionNotSupported, "where-clause"),
        ("?apply=fast", {}, SinkURIInvalid, "apply"),
        ("?transaction-atomicity=some", {}, SinkURIInvalid, "transaction-atomicity"),
        ("?read-timeout=soon", {}, SinkURIInvalid, "not a duration"),
        ("?time-zone=Moon/Sea", {}, SinkURIInvalid, "time-zone"),
        ("?ssl-cert=/c", {}, SinkURIInvalid, "belong together"),
        ("?ssl-mode=trusting", {}, SinkURIInvalid, "ssl-mode"),
        ("?password=x", {}, SinkURIInvalid, "belongs before the host"),
        ("shop", {}, SinkURIInvalid, "a schema (/shop) is not used"),
        ("", {"column-selectors": []}, SinkOptionNotSupported, "column-selectors"),
        ("", {"dispatchers": 3}, DispatcherInvalid, "list of rules"),
        ("", {"mysql-config": 3}, SinkURIInvalid, "not a table"),
        ("", {"password": "x"}, SinkUnknownOption, "password"),
    ],
)
def test_refused(
    query: str, section: dict[str, object], error: type[InvalidError], said: str
) -> None:
    with pytest.raises(error) as e:
        MysqlSettings.parse(_URI + query, section)
    assert said in str(e.value)
    assert e.value.hint
    for text in (str(e.value), repr(e.value), str(e.value.to_dict())):
        assert "p%40ss" not in text
        assert "p@ss" not in text


@pytest.mark.parametrize("uri", ["http://h/", "mysql://", "mysql://u:p@h:port/", "tidb://h/", "x"])
def test_bad_uris(uri: str) -> None:
    with pytest.raises(InvalidError) as e:
        MysqlSettings.parse(uri)
    assert "u:p@" not in str(e.value)


def test_the_password_is_in_no_text() -> None:
    assert "p@ss" not in repr(MysqlSettings.parse(_URI))
