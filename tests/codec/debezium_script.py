"""Tables and changes whose messages the real connector and ours are compared by.

``debezium_golden.json`` holds what Debezium's MySQL connector made of them: after a change here,
``python -m tests.codec.record_debezium`` records it anew.
"""

from __future__ import annotations

SCHEMA = "codec_debezium"
SESSION = ("SET sql_mode='', time_zone='+00:00', names utf8mb4", f"USE {SCHEMA}")
DONE = "done"

_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_MANY = "9" * 35 + "." + "9" * 30


def types() -> list[tuple[str, tuple[str, ...]]]:
    """Type and values of each column of ``every``."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for name, bits in _INTEGERS.items():
        top = 1 << (bits - 1)
        found.append((name, ("0", "-1", str(-top), str(top - 1))))
        found.append((f"{name} unsigned", ("0", "7", str(top), str(2 * top - 1))))
    found += [
        ("tinyint(1)", ("0", "1", "-128")),
        ("int(8) unsigned zerofill", ("7",)),
        ("decimal(65,30)", ("0", _MANY, "-" + _MANY, "0.000000000000000000000000000001")),
        ("decimal(14,2)", ("0", "-0.01", "999999999999.99", "-1.28", "1.27", "1.28")),
        ("decimal(18,0) unsigned", ("0", "999999999999999999", "255")),
        ("decimal(19,0)", ("-999999999999999999", "9223372036854775807", "-9223372036854775809")),
        ("decimal(10)", ("-9", "127", "128", "-128", "-129", "32768")),
        ("float", ("0", "1.5", "-3.4028235e38", "1.17549435e-38", "0.1", "16777216")),
        ("float(7,3)", ("1234.567",)),
        ("double", ("0", "0.1", "-1.7976931348623157e308", "5e-324", "1e22", "123456.789", "3")),
        ("double(10,2)", ("12345.67",)),
        ("bit", ("0", "1")),
        ("bit(7)", ("0", "127")),
        ("bit(13)", ("0", "5", "8191")),
        ("bit(64)", ("0", "18446744073709551615", "256")),
        ("date", ("'1000-01-01'", "'9999-12-31'", "'1969-12-31'", "'2024-02-29'", "'0000-00-00'")),
        ("year", ("1901", "2155", "2026", "0")),
        ("enum('x','y','é','a,b')", ("'x'", "'é'", "''", "'a,b'")),
        ("set('a','b','cé')", ("''", "'a,cé'", "'a,b,cé'")),
        ("char(20)", ("''", "'é😀\"\\\\ \\n\\t/<'", "'trailing  '")),
        ("varchar(300)", ("''", "'plain'", "repeat('é', 300)")),
        ("text", ("'x'", "repeat('ab', 300)")),
        ("mediumtext", ("'z'",)),
        ("varchar(50) character set latin1", ("'ümlaut €'",)),
        ("varchar(50) character set gbk", ("'中文'",)),
        ("char(5) binary", ("'abc'",)),
        ("binary(8)", ("x'00'", "x'0102030405060708'", "x'2000'", "'a'")),
        ("varbinary(300)", ("x''", "x'00ff225c'", "x'0507'")),
        ("blob", ("x'0000'", "x'ff'", "repeat(x'80', 100)")),
        ("tinyblob", ("x'01'",)),
        ("longblob", ("x'02'",)),
        ("json", ("'null'", "'{}'", '\'{"a": [1, 2.5, "x\\\\"", true, null], "é": "😀"}\'')),
    ]
    for fsp in range(7):
        fraction = f".{'987654'[:fsp]}" if fsp else ""
        found += [
            (f"time({fsp})", (f"'-838:59:59{'.' + '0' * fsp if fsp else ''}'",
                              f"'12:34:56{fraction}'", f"'-00:00:01{fraction}'", "'00:00:00'")),
            (f"timestamp({fsp}) null", (f"'1970-01-01 00:00:01{fraction}'",
                                        f"'2038-01-19 03:14:07{fraction}'",
                                        "'2026-01-02 03:04:00'", "'0000-00-00 00:00:00'")),
            (f"datetime({fsp})", (f"'9999-12-31 23:59:59{fraction}'",
                                  f"'1000-01-01 00:00:00{fraction}'",
                                  "'2026-01-02 03:04:05'", "'0000-00-00 00:00:00'")),
        ]  # fmt: skip
    return found


_TYPES = types()
_ROWS = max(len(values) for _, values in _TYPES)

TABLES = (
    "CREATE TABLE every (id int PRIMARY KEY, "
    + ", ".join(f"c{i} {kind}" for i, (kind, _) in enumerate(_TYPES))
    + ") CHARACTER SET utf8mb4",
    "CREATE TABLE strict (id bigint unsigned PRIMARY KEY AUTO_INCREMENT, d date NOT NULL, "
    "t datetime(6) NOT NULL, m datetime NOT NULL, s timestamp(3) NOT NULL DEFAULT '2020-01-01', "
    "n int NOT NULL, e enum('p','q') NOT NULL, v varchar(9) NOT NULL) CHARACTER SET utf8mb4",
    "CREATE TABLE pair (note varchar(20), b varchar(10), a int, PRIMARY KEY (a, b))"
    " CHARACTER SET utf8mb4",
    "CREATE TABLE by_unique (v int, u binary(4) NOT NULL, UNIQUE KEY (u))",
    "CREATE TABLE by_time (at datetime(3) PRIMARY KEY, d decimal(5,1))",
    'CREATE TABLE keyless (v int, `na"me é` varchar(5)) CHARACTER SET utf8mb4',
    f"CREATE TABLE {DONE} (id int PRIMARY KEY)",
)
DATA_TABLES = ("every", "strict", "pair", "by_unique", "by_time", "keyless")

CHANGES = (
    *(
        f"INSERT INTO every VALUES ({row}, {', '.join(v[row % len(v)] for _, v in _TYPES)})"
        for row in range(_ROWS)
    ),
    f"INSERT INTO every (id) VALUES ({_ROWS})",
    "UPDATE every SET c0 = 5 WHERE id = 1",
    "UPDATE every SET id = 100 WHERE id = 2",
    "DELETE FROM every WHERE id = 1",
    "INSERT INTO strict VALUES (18446744073709551615, '0000-00-00', '0000-00-00', '0000-00-00',"
    " '0000-00-00', 0, '', '')",
    "INSERT INTO strict VALUES (1, '2026-01-01', '2026-01-01 00:00:00.000001',"
    " '2026-01-01 00:00:00', '2026-01-01 00:00:00.120', -1, 'q', 'v')",
    "INSERT INTO pair VALUES (NULL, 'b', 1), ('x', 'é', -2)",
    "UPDATE pair SET note = 'y' WHERE a = 1",
    "UPDATE pair SET a = 7 WHERE a = 1",
    "UPDATE pair SET b = 'B' WHERE a = 7",
    "DELETE FROM pair",
    "INSERT INTO by_unique VALUES (1, x'01'), (2, x'01020300')",
    "UPDATE by_unique SET u = x'02' WHERE v = 1",
    "DELETE FROM by_unique WHERE v = 2",
    "INSERT INTO by_time VALUES ('2026-01-02 03:04:05.678', -1.5)",
    "DELETE FROM by_time",
    "INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (NULL, NULL)",
    "UPDATE keyless SET v = 2 LIMIT 1",
    "DELETE FROM keyless LIMIT 1",
)
STATEMENT = "ALTER TABLE pair ADD COLUMN more int"
END = f"INSERT INTO {DONE} VALUES (1)"
