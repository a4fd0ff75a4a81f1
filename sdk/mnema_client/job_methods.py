"""Operations on background jobs: pause and resume kinds, replay a job, and trace what jobs made of a turn.

All but the trace need scope admin.
"""

from uuid import UUID

from mnema_wire.jobs import JobDetail, PausedKind, Pauses

from mnema_client import calls
from mnema_client.calls import JSON, json_body, model_reader, path_id
from mnema_client.methods import async_method, sync_method
from mnema_client.transport import Call
from mnema_client.turn_trace import turn_trace


def pause_jobs(kind: str) -> Call[Pauses]:
    """Pause a kind of job, or all with `*`: running jobs finish, due jobs wait. Return the paused kinds."""
    return Call("POST", "/jobs/pause", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def resume_jobs(kind: str) -> Call[Pauses]:
    """End the pause of a kind; `*` ends every pause. Return the kinds that are still paused."""
    return Call("POST", "/jobs/resume", model_reader(Pauses), content=json_body(PausedKind, kind=kind), headers=JSON)


def replay_job(job_id: UUID | str) -> Call[JobDetail]:
    """Run a dead or done job again; return it. Raise Conflict for a job that is queued or running."""
    return Call("POST", f"/jobs/{path_id(job_id)}/replay", model_reader(JobDetail), repeatable=False)


class JobMethods:
    """The methods of `Mnema` that operate background jobs. `job_page` returns one page, `jobs` yields all."""

    job_page = sync_method(calls.jobs)
    pause_jobs = sync_method(pause_jobs)
    resume_jobs = sync_method(resume_jobs)
    replay_job = sync_method(replay_job)
    turn_trace = sync_method(turn_trace)


class AsyncJobMethods:
    """The methods of `AsyncMnema` that operate background jobs."""

    job_page = async_method(calls.jobs)
    pause_jobs = async_method(pause_jobs)
    resume_jobs = async_method(resume_jobs)
    replay_job = async_method(replay_job)
    turn_trace = async_method(turn_trace)
