"""Where tables stand is a value; each rule has a case that breaks with it."""

from __future__ import annotations

from cdc.base.position import Position, Stand
from processor.catalog import Span
from processor.standing import Standing, passed, together

P = Position


def test_a_table_is_held_at_its_barrier_while_the_others_go_on() -> None:
    standing = Standing(P(10))
    spans = standing.spans(P(30), {"a.t": 19, "a.u": 40}, {})
    assert spans == {"a.t": Span(P(10), P(19))}
    after = standing.after(P(30), spans)
    assert after == Standing(P(30), {"a.t": P(19)})
    assert after.checkpoints() == {"a.t": 19}
    assert after.behind({"a.t": 19}) == {}


def test_a_table_that_is_let_go_catches_up_and_joins_the_others() -> None:
    standing = Standing(P(30), {"a.t": P(19)})
    behind = standing.behind({})
    assert behind == {"a.t": Span(P(19), P(30))}
    spans = standing.spans(P(40), {}, {"a.t": P(30)})
    assert spans == {"a.t": Span(P(19), P(40))}
    assert standing.after(P(40), spans) == Standing(P(40))


def test_one_that_is_not_through_takes_nothing_above() -> None:
    standing = Standing(P(30), {"a.t": P(19)})
    spans = standing.spans(P(40), {}, {"a.t": P(25, 3)})
    assert spans == {"a.t": Span(P(19), P(25, 3))}
    assert standing.after(P(40), spans) == Standing(P(40), {"a.t": P(25, 3)})


def test_the_next_barrier_holds_a_table_that_catches_up() -> None:
    standing = Standing(P(30), {"a.t": P(19)})
    caps = {"a.t": 24}
    assert standing.behind(caps) == {"a.t": Span(P(19), P(24))}
    spans = standing.spans(P(40), caps, {"a.t": P(24)})
    assert standing.after(P(40), spans) == Standing(P(40), {"a.t": P(24)})


def test_a_table_that_stands_higher_gets_nothing_below() -> None:
    standing = Standing(P(10), {"a.t": P(20)})
    spans = standing.spans(P(15), {}, {})
    assert spans == {"a.t": Span(P(20), P(20))}
    after = standing.after(P(15), spans)
    assert after == Standing(P(15), {"a.t": P(20)})
    assert after.held() == {}
    spans = after.spans(P(30), {}, {})
    assert spans == {"a.t": Span(P(20), P(30))}
    assert after.after(P(30), spans) == Standing(P(30))


def test_nothing_goes_back_under_a_barrier_that_comes_too_late() -> None:
    standing = Standing(P(30))
    spans = standing.spans(P(40), {"a.t": 5}, {})
    assert spans == {"a.t": Span(P(30), P(30))}


def test_a_ledger_counts_until_all_that_it_knows_is_delivered_anyhow() -> None:
    standing = Standing(P(30), {"a.t": P(19)})
    assert not passed(Stand(31), standing)
    assert not passed(Stand(30), standing)
    assert not passed(Stand(30, held={"a.t": P(20)}), standing)
    assert passed(Stand(30, held={"a.t": P(19)}), standing)
    assert passed(Stand(18), standing)


def test_a_stand_is_within_another_only_if_no_table_is_higher() -> None:
    assert Stand(10).within(Stand(10))
    assert not Stand(11).within(Stand(10))
    here = Stand(30, held={"a.t": P(19)})
    # The position is the same, but one table has come further than it stands here.
    assert not Stand(30).within(here)
    assert not Stand(30, held={"a.t": P(20)}).within(here)
    assert not Stand(25).within(here)
    assert Stand(30, held={"a.t": P(19)}).within(here)
    assert Stand(30, held={"a.t": P(11), "a.u": P(12)}).within(here)
    assert Stand(19).within(here)
    # What only the other holds back has nothing to do with tables that wait there.
    assert Stand(30, held={"a.u": P(5)}).within(Stand(30))


def test_a_standing_as_a_ledger_would_have_it_names_only_tables_below() -> None:
    found = Standing(P(30), {"a.t": P(19), "a.u": P(40)}).stand()
    assert (found, dict(found.held)) == (P(30), {"a.t": P(19)})


def test_tied_tables_catch_up_to_one_place_and_no_other_waits_for_them() -> None:
    behind = {t: Span(P(10), P(30)) for t in ("a.parent", "a.child", "a.grandchild", "a.apart")}
    caught = {"a.parent": P(15), "a.child": P(20), "a.grandchild": P(30), "a.apart": P(30)}
    ties = [("a.child", "a.parent"), ("a.grandchild", "a.child"), ("a.apart", "a.elsewhere")]
    assert together(caught, behind, ties) == {
        "a.parent": P(15),
        "a.child": P(15),
        "a.grandchild": P(15),
        "a.apart": P(30),
    }


def test_a_tied_table_does_not_go_back() -> None:
    behind = {"a.parent": Span(P(10), P(30)), "a.child": Span(P(25), P(30))}
    caught = {"a.parent": P(15), "a.child": P(28)}
    found = together(caught, behind, [("a.child", "a.parent")])
    assert found == {"a.parent": P(15), "a.child": P(25)}
