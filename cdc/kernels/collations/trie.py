"""Contractions of a collation as a trie, for look-up of the longest one at a place of a text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cdc.kernels.collations import CODE_POINTS, Weights


class Trie(NamedTuple):
    """Which contractions begin with which characters.

    A node is what was read so far: a character alone is its code point, the contraction ``k`` is
    ``CODE_POINTS + k``, and what only begins one comes behind all contractions. ``children``
    uint16[nodes + 1]: the node ``n`` is followed by the characters ``following[children[n]:
    children[n + 1]]``, in order, each of which leads to the node of ``nodes`` at its place (both
    int32). Nodes below ``whole`` have weights. Empty arrays where there are no contractions.
    """

    children: npt.NDArray[np.uint16]
    following: npt.NDArray[np.int32]
    nodes: npt.NDArray[np.int32]
    whole: int


NO_CONTRACTIONS = Trie(np.empty(0, np.uint16), np.empty(0, np.int32), np.empty(0, np.int32), 0)


def trie(weights: Weights) -> Trie:
    """The trie of a collation's contractions."""
    sequences = [tuple(c for c in row if c) for row in weights.sequences.tolist()]
    if not sequences:
        return NO_CONTRACTIONS
    known = {sequence: CODE_POINTS + k for k, sequence in enumerate(sequences)}
    whole = CODE_POINTS + len(sequences)
    for sequence in sequences:
        for size in range(2, len(sequence)):
            known.setdefault(sequence[:size], CODE_POINTS + len(known))
    edges = sorted(
        (known[sequence[:-1]] if len(sequence) > 2 else sequence[0], sequence[-1], node)
        for sequence, node in known.items()
    )
    parents, following, nodes = (np.array(column, np.int32) for column in zip(*edges, strict=True))
    places = np.arange(CODE_POINTS + len(known) + 1)
    children = np.searchsorted(parents, places).astype(np.uint16)
    for array in (children, following, nodes):
        array.setflags(write=False)
    return Trie(children, following, nodes, whole)
