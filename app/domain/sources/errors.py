"""Errors of sources. Those of reading their folders are in `app.domain.errors`."""

from app.domain.errors import InvalidInput, MnemaError


class UnsupportedDocument(InvalidInput):
    """No parser reads files with this extension."""


class SourceExists(MnemaError, status=409):
    """The folder is a source of this user and category already."""


class SourceRemoved(MnemaError, status=409):
    """The source was removed; a job deletes what is left of it."""


class WrongSourceKind(MnemaError, status=409):
    """Files can be uploaded to a source of kind `upload` alone; those of a folder are read from it."""


class DocumentQuotaExceeded(MnemaError, status=409, code="document_quota"):
    """The tenant's quota of documents is used up; delete files or sources first."""


class FolderEmpty(MnemaError, status=409):
    """The folder is empty, as a place where nothing is mounted is; its chunks stay. Mount it, or remove the source."""
