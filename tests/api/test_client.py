"""``from cdc.client import Client``, which server it takes, and how light it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cdc
from cdc.base.ts import physical_ms
from cdc.client import Access, Client, ProfileInvalid, ServerRefused, TokenUnusable, chosen
from cdc.client.connection import AnswerUnreadable
from tests.api.server_process import CdcServer

_PROFILES = """
[default]
server = "https://usual:8300"

[prod]
server = "https://cdc.example:8300"
ca = "~/ca.pem"
token-file = "/secrets/ann.token"
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with two profiles and an environment that says nothing."""
    for name in ("SERVER", "CA", "CERT", "KEY", "TOKEN_FILE", "TOKEN", "PROFILE"):
        monkeypatch.delenv(f"TIDEGATE_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/ann")
    file = tmp_path / "tidegate" / "profiles.toml"
    file.parent.mkdir()
    file.write_text(_PROFILES)
    return file


def test_a_server_is_operated_with_types(server: CdcServer) -> None:
    with Client(Access(server.url, token=server.token)) as client:
        status = client.status()
        assert (status.version, status.is_owner) == (cdc.__version__, True)
        (capture,) = client.captures()
        assert capture.id == status.id
        assert abs(physical_ms(client.now()) - client.tso().timestamp) < 60_000
        assert [f.id for f in client.changefeeds()] == [
            f["id"] for f in server.api("GET", "/changefeeds").json()["items"]
        ]
        made = client.create_token("typed", "viewer", 3600)
        assert "typed" in [t.name for t in client.tokens()]
        (entry,) = client.audit(object="token typed")
        assert (entry.outcome, entry.role) == ("ok", "admin")
        with Client(Access(server.url, token=made.token)) as viewer:
            assert viewer.captures() == client.captures()
            with pytest.raises(ServerRefused) as low:
                viewer.pause("a")
        assert (low.value.code, low.value.kind) == ("TG:ErrAPIForbidden", "invalid")
        client.revoke_token("typed")
        with pytest.raises(ServerRefused) as unknown:
            client.changefeed("none")
        assert unknown.value.code == "TG:ErrChangeFeedNotExists"
        assert made.token not in repr(made)


def test_an_answer_of_another_form_is_said_to_be_one(
    server: CdcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(Access(server.url, token=server.token)) as client:
        monkeypatch.setattr(client, "get", lambda *_, **__: {"id": 7})
        with pytest.raises(AnswerUnreadable, match="ServerStatus"):
            client.status()


def test_who_uses_it_needs_no_server() -> None:
    heavy = ["fastapi", "starlette", "pyspark", "numba", "numpy", "pyarrow", "cdc.server.capture"]
    # What httpx would bring for a command line of its own.
    heavy += ["rich", "click", "pygments"]
    code = f"import sys, cdc.client; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_given_counts_before_a_profile_and_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen() == Access("https://usual:8300")
    assert chosen(server="https://b:1") == Access("https://b:1")
    monkeypatch.setenv("TIDEGATE_SERVER", "https://env:1")
    monkeypatch.setenv("TIDEGATE_TOKEN", "t")
    assert chosen() == Access("https://env:1", token="t")
    prod = Access(
        "https://cdc.example:8300", ca="/home/ann/ca.pem", token_file=Path("/secrets/ann.token")
    )
    # Not the token of the environment: it is for another server.
    assert chosen("prod") == prod
    monkeypatch.setenv("TIDEGATE_PROFILE", "prod")
    assert chosen() == prod
    assert chosen(ca="b.pem").ca == "b.pem"
    assert chosen("default", token_file=Path("f")).token_file == Path("f")
    assert "secret" not in repr(Access(token="secret"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[b]", "there is no profile a"),
        ("a = 1", "there is no profile a"),
        ("[a]\nsever = 'x'", "sever is not a setting"),
        ("[a]\nserver = 1", "server is not a setting, or no text"),
        ("[a", "is not TOML"),
        ("[a]\ntoken = 't'", "others may open it"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(profiles: Path, text: str, said: str) -> None:
    profiles.write_text(text)
    with pytest.raises(ProfileInvalid, match=said):
        chosen("a")
    if "token" in text:
        profiles.chmod(0o600)
        assert chosen("a").token == "t"


def test_a_token_never_goes_to_another_machine_in_plain_text() -> None:
    with pytest.raises(TokenUnusable, match="plain HTTP"):
        Client(Access("http://192.0.2.1:8300", token="t" * 40))
