"""The errors of a copy: a short outage is none, and a row that is refused again and again is one."""

from app.domain.clusters.copy_faults import COPY_ERRORS, MANY_ERRORS, QUIET_S, CopyFaults, CopyWaits

PATIENCE_S = 30.0


def first_giving_up(*notes: tuple[float, int, int]) -> float | None:
    """Return the time of the first note at which the copy is given up; each has its time, the tables and the errors."""
    faults = CopyFaults(PATIENCE_S)
    return next((now for now, ready, errors in notes if faults.are_lasting(ready, errors, now)), None)


def test_errors_that_go_on_end_the_copy() -> None:
    assert first_giving_up(*((float(s), 3, s // 5) for s in range(120))) == 5 + PATIENCE_S


def test_errors_of_a_short_outage_do_not() -> None:
    errors = [0] * 10 + [2, 4, 7] + [7] * 300
    assert first_giving_up(*((float(s), 3, count) for s, count in enumerate(errors))) is None


def test_errors_from_before_this_run_do_not_count() -> None:
    assert first_giving_up(*((float(s), 0, 50) for s in range(300))) is None


def test_another_outage_later_is_another_one() -> None:
    errors = [COPY_ERRORS] * 100 + [2 * COPY_ERRORS] * 100
    notes = [(0.0, 1, 0), *((s + 1.0, 1, count) for s, count in enumerate(errors))]
    assert first_giving_up(*notes) is None


def test_a_copied_table_forgives() -> None:
    assert first_giving_up(*((float(s), s // 20, s // 5) for s in range(300))) is None


def test_rare_errors_without_progress_end_the_copy_too() -> None:
    step = 4 * QUIET_S
    assert first_giving_up(*((n * step, 3, n) for n in range(100))) == MANY_ERRORS * step


def first_without_workers(*notes: tuple[float, int, bool]) -> float | None:
    """Return the time of the first note at which a copy without workers is given up."""
    waits = CopyWaits(PATIENCE_S)
    return next((now for now, ready, waiting in notes if waits.are_lasting(ready, now, waits=waiting)), None)


def test_a_lack_of_workers_that_goes_on_ends_the_copy() -> None:
    assert first_without_workers((0.0, 3, False), *((s + 1.0, 3, True) for s in range(120))) == 1 + PATIENCE_S


def test_a_worker_now_and_then_does_not() -> None:
    assert first_without_workers(*((float(s), 3, s % 20 > 0) for s in range(300))) is None


def test_a_copied_table_forgives_a_lack_of_workers() -> None:
    assert first_without_workers(*((float(s), s // 20, True) for s in range(300))) is None
