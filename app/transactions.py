"""The mark of an open unit of work, so that providers refuse calls inside one."""

from contextvars import ContextVar

in_transaction: ContextVar[bool] = ContextVar("in_transaction", default=False)
"""True while a unit of work is open. Providers then refuse calls, because a slow model must never hold a row lock."""


def refuse_inside_transaction(provider: str) -> None:
    """Raise RuntimeError if a unit of work is open in this task. `provider` is the name in the message."""
    if in_transaction.get():
        raise RuntimeError(f"{provider} was called inside a database transaction")
