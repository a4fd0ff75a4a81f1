"""Errors of sources. Those of reading their folders are in `app.domain.errors`."""

from app.domain.errors import InvalidInput, MnemaError


class UnsupportedDocument(InvalidInput):
    """No parser reads files with this extension."""

    code = "unsupported_document"


class SourceExists(MnemaError):
    """The folder is a source of this user and category already."""

    code = "source_exists"
    status = 409


class SourceRemoved(MnemaError):
    """The source was removed; a job deletes what is left of it."""

    code = "source_removed"
    status = 409


class WrongSourceKind(MnemaError):
    """Files can be uploaded to a source of kind `upload` alone; those of a folder are read from it."""

    code = "wrong_source_kind"
    status = 409


class DocumentQuotaExceeded(MnemaError):
    """The tenant's quota of documents is used up; delete files or sources first."""

    code = "document_quota"
    status = 409


class FolderEmpty(MnemaError):
    """The folder is empty, as a place where nothing is mounted is; its chunks stay. Mount it, or remove the source."""

    code = "folder_empty"
    status = 409
