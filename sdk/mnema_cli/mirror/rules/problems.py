"""Problems of a run. Their messages are sentences for people."""


class StateChanged(Exception):
    """A file or an entry is not as the plan expects. The step is skipped; the next run compares again."""


class EntryRefused(Exception):
    """The store does not take a text, such as one that is too long. The file stays as it is."""


class StoreUnusable(Exception):
    """The server refuses the key or the user, or it is no Mnema server. Nobody can go on without a change."""


class StoreAway(Exception):
    """The server cannot be reached or has too much to do. The next run goes on."""


class FilesUnusable(Exception):
    """The root cannot be used: it is gone, another run has it, or the disk is full. The next run goes on."""


class FilesBusy(FilesUnusable):
    """Files are moved or deleted while they are read. The next run reads them again."""
