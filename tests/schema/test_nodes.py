"""Names of databases of several nodes: what is put together comes apart again, and only that."""

import pytest

from cdc.base.nodes import is_qualified, node_of, plain, qualified


@pytest.mark.parametrize("schema", ["shop", "a:b", ":", "n2:shop", "", "with space"])
def test_a_qualified_name_has_its_node_and_its_plain_name(schema: str) -> None:
    name = qualified("n1", schema)
    assert (is_qualified(name), node_of(name), plain(name)) == (True, "n1", schema)


@pytest.mark.parametrize("schema", ["shop", "n1:shop", "", " shop"])
def test_a_name_of_a_server_alone_stays_as_it_is(schema: str) -> None:
    assert (is_qualified(schema), node_of(schema), plain(schema)) == (False, "", schema)
