"""Operations on background jobs: pause and resume kinds, replay a job, and trace what jobs made of a turn."""

from uuid import UUID

from mnema_wire.jobs import JobDetail, PausedKind, Pauses
from mnema_wire.turn_trace import TurnTrace

from mnema_client.calls import JSON, json_body, model_reader, path_id
from mnema_client.transport import Call


def pause_jobs(kind: str) -> Call[Pauses]:
    """Pause a kind of job, or all with `*`: running jobs finish, due jobs wait. Return the paused kinds."""
    return Call("POST", "/jobs/pause", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def resume_jobs(kind: str) -> Call[Pauses]:
    """End the pause of a kind; `*` ends every pause. Return the kinds that are still paused."""
    return Call("POST", "/jobs/resume", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def replay_job(job_id: UUID | str) -> Call[JobDetail]:
    """Run a dead or done job again; return it. Raise Conflict for a job that is queued or running."""
    return Call("POST", f"/jobs/{path_id(job_id)}/replay", model_reader(JobDetail), repeatable=False)


def turn_trace(turn_id: UUID | str) -> Call[TurnTrace]:
    """Explain what the background work made of a turn; `turn_id` is the id that `add_turn` returned."""
    return Call("GET", f"/turns/{path_id(turn_id)}/trace", model_reader(TurnTrace))
