"""The API does what its own description says, as a fuzzer of others finds out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.server_process import CdcServer
from tests.seeds import seed

_DOCUMENT = "/api/v2/openapi.json"
_CONFIG = Path(__file__).with_name("schemathesis.toml")
_ERROR = {"$ref": "#/components/schemas/ApiError"}


def _schemas(value: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All parts of the document that are objects, with where they stand."""
    if isinstance(value, dict):
        yield at, value
        for name, part in value.items():
            yield from _schemas(part, f"{at}/{name}")
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from _schemas(part, f"{at}/{n}")


@pytest.fixture(scope="module")
def document(server: CdcServer) -> Any:
    answer = server.send("GET", _DOCUMENT)
    assert answer.status_code == 200
    return answer.json()


def test_every_list_says_what_it_holds(document: Any) -> None:
    arrays = {at: part for at, part in _schemas(document) if part.get("type") == "array"}
    assert len(arrays) > 20
    assert [at for at, part in arrays.items() if not part.get("items")] == []


def test_every_operation_says_how_it_refuses(document: Any) -> None:
    operations = [o for methods in document["paths"].values() for o in methods.values()]
    assert len(operations) > 30
    for operation in operations:
        errors = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert {"403", "500", "503"} <= errors.keys()
        assert "422" not in errors
        for answer in errors.values():
            assert answer["content"]["application/json"]["schema"] == _ERROR


@pytest.mark.slow
def test_a_fuzzer_finds_nothing_that_is_not_described(tmp_path: Path) -> None:
    """Requests that the description allows, and such as it does not, in sequences too."""
    made = CdcServer(tmp_path / "data")
    try:
        made.start()
        chosen = str(seed())
        command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file"]
        command += [str(_CONFIG), "run", f"{made.url}{_DOCUMENT}", "--seed", chosen]
        command += ["--header", f"Authorization: Bearer {made.token}", "--no-color"]
        command += ["--phases", "fuzzing,stateful", "--max-examples", "12", "--workers", "1"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"SEED={chosen}\n{done.stdout[-6000:]}"
        generated = re.search(r"(\d+) generated", done.stdout)
        assert generated is not None
        assert int(generated[1]) > 100
        assert made.process is not None
        assert made.process.poll() is None
    finally:
        made.end()
