"""Problems of a run. Their messages are sentences for people."""


class StateChanged(Exception):
    """A file or an entry is not as the plan expects. The step is skipped; the next run compares again."""


class EntryRefused(Exception):
    """The store does not take a text, such as one that is too long. The file stays as it is."""


class FilesUnusable(Exception):
    """The root cannot be used: it is gone, another run has it, or the disk is full. The next run goes on."""
