"""What is copied beside the browser, of what the loader lists."""

from __future__ import annotations

from pathlib import Path

from tests.servers.chromium import libraries

LISTED = """
\tlinux-vdso.so.1 (0x00007ffd0d1f2000)
\tlibnss3.so => /unpacked/usr/lib/x86_64-linux-gnu/libnss3.so (0x00007fa58b000000)
\tlibc.so.6 => /unpacked/usr/lib/x86_64-linux-gnu/libc.so.6 (0x00007fa58a000000)
\tlibm.so.6 => /unpacked/usr/lib/x86_64-linux-gnu/libm.so.6 (0x00007fa58a100000)
\t/lib64/ld-linux-x86-64.so.2 => /unpacked/lib/ld-linux-x86-64.so.2 (0x00007fa58bb72000)
"""


def test_the_loader_of_the_host_is_no_library() -> None:
    found = libraries(LISTED)
    assert found == [("libnss3.so", Path("/unpacked/usr/lib/x86_64-linux-gnu/libnss3.so"))]
    # A name that is a whole path would be copied to just that.
    assert all((Path("/target") / name).parent == Path("/target") for name, _ in found)
