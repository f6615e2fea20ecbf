"""What a task says of an error survives the way to a process that never loaded its class."""

from __future__ import annotations

import pickle

from cdc.base.errors import ErrorKind, from_dict


def test_the_code_of_a_class_that_is_not_loaded_is_kept() -> None:
    said = {
        "code": "TG:ErrOfAnotherProcess",
        "kind": "definite",
        "message": "what happened",
        "object": "a.b",
        "position": "ts 7",
        "hint": "try this",
    }
    error = from_dict(said)
    assert error.kind is ErrorKind.DEFINITE
    assert error.to_dict() == said
    assert str(error).startswith("[TG:ErrOfAnotherProcess] a.b: what happened")
    assert pickle.loads(pickle.dumps(error)).to_dict() == said
