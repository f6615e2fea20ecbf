"""Operate a server from Python: what ``cdc cli`` itself uses. See ``docs/client.md``."""

from cdc.base.refusals import ServerRefused
from cdc.client.access import Access, TlsFileUnusable, TokenUnusable
from cdc.client.connection import (
    AnswerLate,
    AnswerUnreadable,
    ServerUnreachable,
    ServerUrlInvalid,
)
from cdc.client.operations import Client
from cdc.client.profiles import ProfileInvalid, chosen

__all__ = [
    "Access",
    "AnswerLate",
    "AnswerUnreadable",
    "Client",
    "ProfileInvalid",
    "ServerRefused",
    "ServerUnreachable",
    "ServerUrlInvalid",
    "TlsFileUnusable",
    "TokenUnusable",
    "chosen",
]
