"""New ids of imported records."""

from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from app.domain.retention.portable import PortableRecord, renew_id
from app.storage.identity import new_id

TENANT = uuid4()


@given(st.uuids(), st.uuids())
def test_a_new_id_is_the_same_each_time_and_another_in_each_tenant(tenant: UUID, old: UUID) -> None:
    new = renew_id(tenant, old)
    assert new == renew_id(tenant, old)
    assert new != renew_id(UUID(int=tenant.int ^ 1), old)
    assert new.bytes[:8] == old.bytes[:8]


@given(st.uuids(version=4), st.uuids(version=4))
def test_records_keep_apart(first: UUID, second: UUID) -> None:
    assert (renew_id(TENANT, first) == renew_id(TENANT, second)) == (first == second)


def test_ids_of_mnema_are_renewed_wherever_they_stand_and_those_of_callers_stay() -> None:
    turn, memory, foreign = str(new_id()), str(new_id()), str(uuid4())
    fields = {
        "id": memory,
        "superseded_by": None,
        "text": turn,
        "thread_id": turn,
        "source": {"turn_id": turn, "quote": turn},
        "meta": {"replaces": [turn], "after": {"id": memory, "metadata": {"own": turn}}, "key": turn, "their": foreign},
    }
    record = PortableRecord("memory", fields, ids=("id", "superseded_by"), refs=("source", "meta"))
    said, kept = (str(renew_id(TENANT, UUID(each))) for each in (turn, memory))
    assert record.with_new_ids(TENANT).fields == {
        "id": kept,
        "superseded_by": None,
        "text": turn,
        "thread_id": turn,
        "source": {"turn_id": said, "quote": turn},
        "meta": {"replaces": [said], "after": {"id": kept, "metadata": {"own": turn}}, "key": turn, "their": foreign},
    }
