"""``python -m tests.ddl_diff --server mariadb|mysql [--version V] FILE.sql … [--lines]``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests import servers
from tests.ddl_diff.run import Run
from tests.ddl_diff.split import by_line, statements
from tests.seeds import seed

_VERSIONS = {"mariadb": "11.4", "mysql": "8.0"}


def main() -> int:
    """Exit code 0 if nothing differs and hardly anything is refused, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.ddl_diff", description=__doc__)
    parser.add_argument("--server", choices=_VERSIONS, required=True)
    parser.add_argument("--version", help="11.4 and 8.0 unless told otherwise")
    parser.add_argument("--lines", action="store_true", help="one statement a line")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything there")
    parser.add_argument("--rejected", action="store_true", help="print what the server rejected")
    parser.add_argument("--generate", type=int, default=0, metavar="N", help="N random statements")
    parser.add_argument("--seed", type=int, default=seed(), help="SEED, or a new one each time")
    parser.add_argument("--save", type=Path, metavar="OUT.sql", help="write the statements there")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.sql")
    chosen = parser.parse_args()
    name = f"{chosen.server}-{chosen.version or _VERSIONS[chosen.server]}"
    with servers.database(name) as db:
        db.execute("CREATE DATABASE ddl_diff")
        run = Run(db)
        run.one("USE ddl_diff")
        run.result.statements = run.result.accepted = run.result.unchanged = 0
        for file in chosen.files:
            text = file.read_text("utf-8-sig", "replace")
            found = by_line(text) if chosen.lines else statements(text, run.backslash)
            run.all(found, file.name)
        run.trace = [] if chosen.save else None
        if chosen.generate:
            print(f"SEED={chosen.seed}")
            run.generated(chosen.generate, chosen.seed)
        run.check_all()
        if chosen.save:
            chosen.save.write_text("".join(f"{s}\n" for s in run.trace or ()))
        run.close()
    result = run.result
    for refused in result.refused:
        print(f"REFUSED {refused['at']}: {refused['statement']}\n    {refused['reason']}")
        for line in refused["differences"]:
            print(f"    and is different: {line}")
    for different in result.different:
        print(f"DIFFERENT {different['at']}: {different['statement']}")
        for line in different["differences"]:
            print(f"    {line}")
    if chosen.rejected:
        for rejected in result.rejected:
            print(f"rejected {rejected['at']}: {rejected['statement']}\n    {rejected['error']}")
    for schema, name in sorted(result.unshown):
        print(f"UNSHOWN {schema}.{name}")
    for unsaid in result.unsaid:
        print(f"UNSAID {unsaid}")
    summary = result.summary()
    print(", ".join(f"{key} {value}" for key, value in summary.items()))
    if chosen.json:
        details = {"refused": result.refused, "different": result.different}
        everything = {"server": name, "summary": summary, **details, "rejected": result.rejected}
        chosen.json.write_text(json.dumps(everything, indent=1, default=str) + "\n")
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
