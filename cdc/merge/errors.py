"""What is wrong with a cluster's order. Each stops the stream; none is guessed around."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InternalError


class MergeDisorder(DefiniteError):
    """A node committed a transaction below one that had ended before it was prepared."""

    code = "TG:ErrMergeDisorder"


class MergeBranchMissing(DefiniteError):
    """A distributed transaction has not the branches on its nodes that it says it has."""

    code = "TG:ErrMergeBranchMissing"


class MergeHeartbeatIncomplete(DefiniteError):
    """A heartbeat transaction that is not on every node of the cluster once."""

    code = "TG:ErrMergeHeartbeatIncomplete"


class MergeXaBroken(DefiniteError):
    """A node's log commits an XA transaction that it has not prepared."""

    code = "TG:ErrMergeXaBroken"


class MergeGoesBack(InternalError):
    """The merged order would go back: a bug of ours, noticed before anything was written."""

    code = "TG:ErrMergeGoesBack"


class MergeCommitMalformed(DefiniteError):
    """Events that should carry a commit TSO have another form."""

    code = "TG:ErrMergeCommitMalformed"


class MergeCommitUnknown(DefiniteError):
    """A distributed transaction is committed, and nothing before it says when."""

    code = "TG:ErrMergeCommitUnknown"
