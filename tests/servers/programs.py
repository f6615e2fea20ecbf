"""Programs of others' that Maven Central has, as jars: what we are compared with."""

from __future__ import annotations

from pathlib import Path

from tests.servers import cache, maven


def jars(name: str, pom: Path) -> Path:
    """The folder of a program's jars, fetched by Maven if they are not in the cache."""
    place = cache.root() / "servers" / name / maven.sha256(pom)[:12]
    return cache.entry(place, lambda base: maven.unpack_jars(name, pom, base)) / "lib"
