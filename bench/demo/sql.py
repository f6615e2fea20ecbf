"""A client for the tutorial: ``python -m bench.demo.sql URI 'statement' …``."""

from __future__ import annotations

import sys
from urllib.parse import unquote, urlsplit

import pymysql


def main() -> int:
    """Run the statements one after another; rows are printed with tabs between their values."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    uri = urlsplit(sys.argv[1])
    try:
        with pymysql.connect(
            host=uri.hostname or "127.0.0.1",
            port=uri.port or 3306,
            user=unquote(uri.username or "root"),
            password=unquote(uri.password or ""),
            autocommit=True,
        ) as connection:
            cursor = connection.cursor()
            for statement in sys.argv[2:]:
                count = cursor.execute(statement)
                for row in cursor.fetchall():
                    print("\t".join("NULL" if v is None else str(v) for v in row))
                if cursor.description is None:
                    print(f"OK, {count} rows")
    except pymysql.err.MySQLError as error:
        print(f"Error: {error.args}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
