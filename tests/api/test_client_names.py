"""Of clients with a certificate of the authority only those with the names that are allowed."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from cdc.api import client_names
from cdc.server.settings import SecuritySettings, ServerConfigInvalid, load
from tests.servers import tls
from tests.servers.process import free_port
from tests.waiting import until


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tls.Tls:
    return tls.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def url(files: tls.Tls) -> Iterator[str]:
    """A server that takes certificates of the name that the tests' client has, and another."""
    security = SecuritySettings(
        ca_path=files.ca,
        cert_path=files.server_cert,
        key_path=files.server_key,
        cert_allowed_cn=("cdc-cli", "tidegate"),
    )
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("in"))])
    config = uvicorn.Config(
        app,
        http=client_names.only(security.cert_allowed_cn),
        port=free_port(),
        log_config=None,
        lifespan="off",
        ssl_context_factory=lambda *_: security.tls(),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "it answers")
    yield f"https://127.0.0.1:{config.port}/"
    server.should_exit = True
    thread.join()


def _ask(url: str, files: tls.Tls, cert: Path, key: Path) -> str:
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(cert, key)
    with httpx.Client(verify=context, trust_env=False) as client:
        return client.get(url).text


def test_a_name_that_is_allowed_comes_in_and_no_other(
    url: str, files: tls.Tls, caplog: pytest.LogCaptureFixture
) -> None:
    assert _ask(url, files, files.cert, files.key) == "in"
    caplog.set_level(logging.WARNING, "server")
    # Of the same authority, with the name "localhost".
    with pytest.raises(httpx.TransportError):
        _ask(url, files, files.server_cert, files.server_key)
    assert "its certificate is 'localhost'" in caplog.text


def test_names_need_an_authority() -> None:
    given = {"data_dir": Path("d"), "cert": Path("c"), "key": Path("k"), "cert_allowed_cn": ["x"]}
    with pytest.raises(ServerConfigInvalid, match="cert-allowed-cn needs ca-path"):
        load(None, given)
    assert load(None, given | {"ca": Path("a")}).security.cert_allowed_cn == ("x",)
