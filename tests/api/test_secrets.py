"""A password appears nowhere: errors, log lines, answers, reprs; whatever surrounds it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cdc.api.changefeed_models import ChangefeedInfo
from cdc.api.errors import answer
from cdc.api.requests import CreateChangefeed, CreateUpstream
from cdc.base.errors import InvalidError, TidegateError
from cdc.base.ids import FeedId
from cdc.base.secrets import mask_sql, mask_text, mask_uri, with_password
from cdc.coord.messages import FeedInfo, FeedStatus, UpstreamInfo
from cdc.server.logging_setup import LineFormatter
from cdc.source.connection import parse_uri
from owner.ddl import excerpt
from processor.task_messages import FeedPlan
from sink.contract import Layout
from sink.kafka.settings import KafkaSettings
from sink.mysql.settings import MysqlSettings
from sink.open import open_sink

MARKER = "Mark3rS3cret"
_AROUND = st.text("/?#@:%&='\" +,;[]()\\äz9", max_size=4)
_SECRETS = st.builds(lambda a, b: f"{a}{MARKER}{b}", _AROUND, _AROUND)
_HOSTS = st.sampled_from(["db1", "db1:3306", "10.0.0.7:9092", "[::1]:3306", "a:1,b:2", ""])
_PATHS = st.sampled_from(["", "/", "/topic", "/topic?protocol=canal-json", "?ssl-mode=required"])
_NAMES = st.sampled_from(
    ["sasl-password", "sasl-pasword", "pasword", "secrt", "sasl_password", "key-pwd", "x y", "ö"]
)


@st.composite
def uris(draw: st.DrawFn) -> str:
    """A URI that has the marker where a user would put a password, written as users do."""
    scheme = draw(st.sampled_from(["mysql", "kafka", "kafka+ssl", "mariadb+ssl", "mysq", "file"]))
    secret = draw(_SECRETS)
    if draw(st.booleans()):
        secret = quote(secret, safe="")
    host, path = draw(_HOSTS), draw(_PATHS)
    if draw(st.booleans()):
        return f"{scheme}://root:{secret}@{host}{path}"
    sep = "&" if "?" in path else "?"
    user = draw(st.sampled_from(["", "root@", "root:x@"]))
    return f"{scheme}://{user}{host}{path}{sep}{draw(_NAMES)}={quote(secret, safe='')}"


def told(work: Callable[[], object]) -> str:
    """All that the outside gets to see of what ``work`` returns or raises."""
    try:
        return repr(work())
    except TidegateError as error:
        record = logging.LogRecord("x", 40, "f", 1, "%s: %r", (error, error), None)
        line = LineFormatter().format(record)
        return f"{error} {error!r} {answer(error).body.decode()} {line}"
    except ValidationError as error:
        return str(error)


@settings(max_examples=600, deadline=None)
@given(uris())
def test_no_error_or_repr_or_mask_shows_a_password(uri: str) -> None:
    upstream = UpstreamInfo(name="main", uri=uri)
    feed = FeedInfo(id="f", upstream="main", sink_uri=uri, config={"sink": {"x": uri}}, start_ts=1)
    plan = FeedPlan(FeedId("i", "f", 1), 1, "log", 1, uri, {"a": uri}, 1, "run", Layout({}))
    seen = [
        *(repr(x) for x in (upstream, feed, plan)),
        *(told(lambda w=w: w(uri)) for w in (parse_uri, KafkaSettings.parse, MysqlSettings.parse)),
        told(lambda: open_sink(uri, {}).__class__),
        told(lambda: CreateUpstream(name="a", uri=uri)),
        told(lambda: CreateChangefeed(upstream="a", sink_uri=uri)),
        told(lambda: FeedInfo.model_validate({"id": "f", "sink_uri": uri, "config": 5})),
        mask_uri(uri, ("protocol", "ssl-mode")),
    ]
    assert [s for s in seen if MARKER in s] == []


@settings(max_examples=300, deadline=None)
@given(st.text("/ '\":?#ä9", max_size=4), st.sampled_from(["db", "db:3306/x", "[::1]:3306"]))
def test_a_log_line_shows_no_password_of_a_uri(around: str, host: str) -> None:
    line = f"cannot reach mysql://root:z{around}{MARKER}{around}@{host}: Access denied"
    assert MARKER not in mask_text(line)
    assert mask_text(line).endswith(f"@{host}: Access denied")


@pytest.mark.parametrize(
    "line",
    [
        f"sasl-password='{MARKER} x'",
        f'{{"password": "a\\"b {MARKER}"}}',
        f"password = {MARKER}",
        f"token: {MARKER}",
        f"CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:a b/{MARKER}@h:1/d/t'",
        f'CREATE TABLE t (a INT) CONNECTION = "{MARKER}"',
        f"CREATE USER u IDENTIFIED BY '{MARKER}'",
        f"ALTER USER u IDENTIFIED WITH caching_sha2_password BY 'it''s {MARKER}'",
        f"ALTER USER u IDENTIFIED VIA ed25519 USING PASSWORD('{MARKER}')",
        f"SET PASSWORD FOR u = PASSWORD('{MARKER}')",
        f"CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'x', PASSWORD '{MARKER}')",
        f"CHANGE MASTER TO MASTER_PASSWORD='{MARKER}', MASTER_HOST='h'",
    ],
)
def test_statements_and_settings_in_a_log_line(line: str) -> None:
    assert MARKER not in mask_text(line)
    if line[0] in "CAS":
        assert MARKER not in mask_sql(line)
        assert MARKER not in excerpt(line)


@pytest.mark.parametrize(
    "line",
    [
        "kafka://h:9092/orders: Access denied for user 'root'@'localhost'",
        "mysql://h:3306, root@db2",
        "CREATE TABLE passwords (password VARCHAR(30), connection INT COMMENT 'x')",
        "reached http://127.0.0.1:8300/api/v2",
    ],
)
def test_other_text_stays(line: str) -> None:
    assert mask_text(line) == line


def test_what_can_be_read_is_shown_but_its_secrets() -> None:
    shown = mask_uri("kafka://h:9092/t?sasl-user=a@b&sasl-password=x&protocol=canal-json")
    assert shown == "kafka://h:9092/t?sasl-user=a%40b&sasl-password=******&protocol=canal-json"
    assert mask_uri("mysql://u:p@h:3306/") == "mysql://u:******@h:3306/"
    for same in ("file:///data/x?protocol=canal-json", "blackhole://?protocol=canal-json"):
        assert mask_uri(same) == same
    with pytest.raises(InvalidError) as caught:
        KafkaSettings.parse("kafka://h:9092/t?protocol=canal-json&sasl-pasword=x")
    assert "unknown option sasl-pasword" in str(caught.value)
    assert "did you mean sasl-password?" in caught.value.hint


def test_a_changefeed_is_shown_without_its_passwords() -> None:
    config = {"sink": {"kafka-config": {"sasl-password": MARKER, "sasl-user": "u"}}}
    uri = f"kafka://h:1/t?sasl-user=u&sasl-password={MARKER}"
    feed = FeedInfo(id="f", upstream="m", sink_uri=uri, config=config, start_ts=1)
    shown = ChangefeedInfo.of(feed, FeedStatus(checkpoint_ts=1)).model_dump_json()
    assert MARKER not in shown
    assert json.loads(shown)["config"]["sink"]["kafka-config"]["sasl-user"] == "u"


@given(st.text(min_size=1, max_size=12).filter(lambda t: "\x00" not in t))
def test_a_password_beside_the_uri_is_the_one_that_is_used(password: str) -> None:
    try:
        password.encode()
    except UnicodeEncodeError:
        return
    assert parse_uri(with_password("mysql://root@h:1/", password)).password == password
    found = KafkaSettings.parse(
        with_password("kafka://localhost:1/t?protocol=canal-json&sasl-user=u", password)
    )
    assert found.sasl_password is not None
    assert found.sasl_password.get_secret_value() == password
    for wrong in ("mysql://root:x@h/", "mysql://h/", "kafka://h/t?sasl-password=x"):
        with pytest.raises(ValueError, match="the URI"):
            with_password(wrong, password)
