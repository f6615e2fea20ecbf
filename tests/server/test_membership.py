"""Nodes that come to an upstream and leave it, as values: what is refused, and what stays."""

from __future__ import annotations

import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.server import membership
from cdc.server.nodes import NewNode, NodesInvalid, check_server


def _fleet(*names: str, **more: object) -> UpstreamInfo:
    nodes = [
        UpstreamInfo(name=f"fleet.{n}", uri=f"mysql://root@h:{i}", kind="node", server_uuid=n)
        for i, n in enumerate(names, 1)
    ]
    return UpstreamInfo(name="fleet", uri="", kind="shards", ca="/ca", nodes=nodes).model_copy(
        update=more
    )


def test_another_node_is_reached_as_the_others_are() -> None:
    info = _fleet("n1", "n2")
    node = membership.to_add(info, NewNode("n3", "mysql://root@h:3", "now"))
    assert (node.name, node.kind, node.ca, node.nodes) == ("fleet.n3", "node", "/ca", [])
    made = membership.added(info, node)
    assert [n.name for n in made.nodes] == ["fleet.n1", "fleet.n2", "fleet.n3"]


def test_nodes_of_a_cluster_change_where_branches_are_counted() -> None:
    info = _fleet("n1", kind="cluster", carrier="commit-log")
    assert membership.to_add(info, NewNode("n3", "mysql://root@h:3")).name == "fleet.n3"


@pytest.mark.parametrize(
    ("info", "name", "uri", "why"),
    [
        (_fleet("n1", "n2"), "n2", "mysql://root@h:3", "two nodes are called n2"),
        (_fleet("n1", "n2"), "n3", "mysql://root@h:2", "are one server"),
        (_fleet("n1", left=["n3"]), "n3", "mysql://root@h:3", "has been of it"),
        (
            _fleet("n1", kind="cluster", carrier="timestamp"),
            *("n3", "mysql://root@h:3", "carrier timestamp does not say on how many nodes"),
        ),
        (_fleet(kind="single"), "n3", "mysql://root@h:3", "of kind single do not change"),
        (_fleet("n1"), "N.3", "mysql://root@h:3", "is not a name of a node"),
    ],
)
def test_what_is_no_node_of_it_is_refused(
    info: UpstreamInfo, name: str, uri: str, why: str
) -> None:
    with pytest.raises(NodesInvalid, match=why):
        membership.to_add(info, NewNode(name, uri))


def test_a_server_that_is_a_node_by_another_address_is_refused() -> None:
    info = _fleet("n1", "n2")
    node = membership.to_add(info, NewNode("n3", "mysql://root@other:2"))
    with pytest.raises(NodesInvalid, match="n2 and n3 are one server"):
        check_server(info.name, info.nodes, node.model_copy(update={"server_uuid": "n2"}))


def test_a_node_leaves_once_and_not_as_the_last() -> None:
    info = membership.leaving(_fleet("n1", "n2"), "n1", 70)
    assert [n.ends_ts for n in info.nodes] == [70, 0]
    assert membership.leaving(info, "n1", 90) == info
    for name, end, why in (("n2", 80, "the last"), ("n9", 80, "is none of its nodes")):
        with pytest.raises(NodesInvalid, match=why):
            membership.leaving(info, name, end)
    with pytest.raises(NodesInvalid, match="about to join"):
        membership.leaving(_fleet("n1", "n2"), "n1", 0)


def test_it_has_left_when_the_log_of_all_says_so() -> None:
    info = membership.leaving(_fleet("n1", "n2", "n3"), "n1", 70)
    assert membership.gone(info, {}) == []
    assert membership.gone(info, {"n1": 60, "n2": 60}) == []
    # One that joins is not there yet.
    assert membership.gone(info, {"n2": 90}) == ["fleet.n1"]
    left = membership.without(info, ["fleet.n1"])
    assert [n.name for n in left.nodes] == ["fleet.n2", "fleet.n3"]
    assert left.left == ["n1"]
