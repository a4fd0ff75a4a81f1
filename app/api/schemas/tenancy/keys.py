"""The answer to the revocation of a key."""

from collections.abc import Sequence

from fastapi import Response


def told_revocation(unreached: Sequence[str]) -> Response:
    """Return 204, with a header that names the clusters that could not be told."""
    return Response(status_code=204, headers={"Mnema-Unreached": ", ".join(unreached)} if unreached else None)
