"""Values of row images as canal-json text: one kernel per kind of value.

Every kernel writes what stands between the double quotes of a JSON string: JSON-escaped UTF-8.
Common shape: ``fn(buf, p, <parameters>, out, o)``.

- ``buf``  uint8[::1], may be read-only; ``p`` int64, offset of the value in it. The caller has
  checked that the value's fixed length (or the given length ``n``) lies inside ``buf``.
- ``out``  uint8[::1], writable, with room for ``12 * input length + 64`` bytes after ``o``. Two
  kernels
  need more, a constant: ``floats.double`` 352 bytes, ``floats.float32`` 72 bytes.
- Result: the new write offset (int64) where every input has a text; else ``(offset, 0)``, or
  ``(position in buf, code)`` with a code of ``errors``. Bytes of ``out`` after the new offset may
  have been overwritten (wide stores), never beyond the room promised above.

=========== =============================================================================
module      what
=========== =============================================================================
signature   the numba types of ``buf`` and ``out``
errors      codes, and a sentence for each
words       unaligned loads and stores, 128-bit product
integers    tiny … bigint, signed and unsigned; year; bit
floats      float and double: the shortest text that reads back the same, without exponent
decimals    packed decimal
dates       DATE, DATETIME2, TIMESTAMP2, TIME2
old_dates   their forms before MySQL 5.6, and MariaDB's with fractions (mysql56_temporal_format=OFF)
zones       time zones as transition arrays
escape      UTF-8 → JSON-escaped UTF-8 (utf8mb3, utf8mb4, ascii)
text        text of every other character set, by the tables of ``cdc.kernels.charsets``
binary      bytes as ISO-8859-1 code points; padding of BINARY(n)
json_text   scalars of MySQL's JSON text; the exponent layout of both servers
json_scalar the scalars of binary JSON
mysql_json  MySQL's binary JSON as the server prints it
addresses   MariaDB's uuid, inet4, inet6
vectors     VECTOR of both servers
=========== =============================================================================
"""
