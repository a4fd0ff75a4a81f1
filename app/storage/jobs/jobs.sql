-- Background jobs. $1 is the tenant, except in `due` and `now`. Times are the database's. Only the worker ($3) that
-- holds a running job changes it.

-- name: due
-- Of every tenant. $1 the limit, $2 the time after which a published job that nobody started is due again.
SELECT tenant_id, id, kind FROM claim_jobs($1, $2)

-- name: now
SELECT now() AS now

-- name: mark_published
-- $2 ids, $3 as $2 in `due`. Returns the ids that were still to be published: only one of two concurrent sweeps gets a
-- job. One that another transaction holds waits for a later sweep.
UPDATE jobs SET published_at = now()
WHERE tenant_id = $1 AND id = ANY (ARRAY (
    SELECT id FROM jobs
    WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND state IN ('queued', 'running')
      AND (published_at IS NULL OR is_publication_lost(published_at, $3)
           OR state = 'running' AND published_at < lease_until)
    ORDER BY id FOR UPDATE SKIP LOCKED))
RETURNING id

-- name: start
-- $2 id, $3 worker, $4 lease, $5 the most attempts.
SELECT {columns} FROM start_job($1, $2, $3, $4, $5) j

-- name: extend
-- $4 lease. A lease that ran out can be renewed as long as nobody else took the job.
UPDATE jobs SET lease_until = now() + $4::interval
WHERE tenant_id = $1 AND id = $2 AND worker = $3 AND state = 'running' RETURNING id

-- name: finish
-- $4 report.
UPDATE jobs SET state = 'done', report = $4, last_error = NULL, lease_until = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND worker = $3 AND state = 'running' RETURNING id

-- name: fail
-- $4 error, $5 the delay before the next attempt, or null: dead.
UPDATE jobs SET state = CASE WHEN $5::interval IS NULL THEN 'dead' ELSE 'queued' END,
    next_run = now() + coalesce($5, '0'), published_at = NULL, last_error = $4, lease_until = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND worker = $3 AND state = 'running' RETURNING id

-- name: defer
-- $4 the delay, $5 the reason. The attempt does not count.
UPDATE jobs SET state = 'queued', attempts = greatest(0, attempts - 1), next_run = now() + $4::interval,
    published_at = NULL, last_error = $5, lease_until = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND worker = $3 AND state = 'running' RETURNING id

-- name: enqueue
-- $2 jobs, $3 slot or null, $4 the delay. A slot that a kind has already stays as it is. A user who was erased
-- meanwhile gets no job.
INSERT INTO jobs (tenant_id, id, kind, user_id, payload, slot, next_run)
SELECT $1, j.id, j.kind, j.user_id, j.payload, $3, now() + $4::interval
FROM jsonb_to_recordset($2::jsonb) AS j(id uuid, kind text, user_id text, payload jsonb)
WHERE j.user_id IS NULL OR EXISTS (SELECT FROM users u WHERE u.tenant_id = $1 AND u.user_id = j.user_id FOR KEY SHARE)
ON CONFLICT (tenant_id, kind, slot) DO NOTHING RETURNING id

-- name: schedule
-- $2 ids, $3 kinds, $4 slots. A kind with an unfinished job (paused, or no worker) gets no second one.
INSERT INTO jobs (tenant_id, id, kind, slot)
SELECT $1, s.id, s.kind, s.slot FROM unnest($2::uuid[], $3::text[], $4::text[]) AS s(id, kind, slot)
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.tenant_id = $1 AND j.kind = s.kind AND j.slot IS NOT NULL
                                         AND (j.slot = s.slot OR j.state IN ('queued', 'running')))
ON CONFLICT (tenant_id, kind, slot) DO NOTHING RETURNING id

-- name: page
-- $2 state or null, $3 kind or null, $4 and $5 the last row seen or null, $6 limit. Newest first, without the report:
-- it may be long.
SELECT {brief} FROM jobs j
WHERE j.tenant_id = $1 AND ($2::text IS NULL OR j.state = $2) AND ($3::text IS NULL OR j.kind = $3)
  AND ($4::timestamptz IS NULL OR (j.created_at, j.id) < ($4, $5::uuid))
ORDER BY j.created_at DESC, j.id DESC LIMIT $6

-- name: get
SELECT {columns} FROM jobs j WHERE j.tenant_id = $1 AND j.id = $2

-- name: counts
SELECT kind, state, count(*) AS jobs FROM jobs WHERE tenant_id = $1 GROUP BY kind, state ORDER BY kind, state

-- name: oldest_due
-- The seconds that the oldest due job has waited; null if none is due. Paused jobs do not count: they wait on purpose.
SELECT extract(epoch FROM now() - min(least(j.next_run, now())))::float8 FROM jobs j
WHERE j.tenant_id = $1 AND is_due(j.next_run) AND (j.state = 'queued' OR j.state = 'running' AND is_lease_over(j.lease_until))
  AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = $1 AND p.kind IN (j.kind, '*'))

-- name: replay
UPDATE jobs SET state = 'queued', attempts = 0, next_run = now(), published_at = NULL, report = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND (state IN ('done', 'dead') OR state = 'queued' AND next_run > now()) RETURNING id

-- name: stranded
-- Whether there are jobs for `revive`.
SELECT EXISTS (SELECT 1 FROM jobs WHERE tenant_id = $1 AND kind = $2 AND state = 'dead' AND created_at >= $3
                                    AND starts_with(last_error, $4))

-- name: revive
-- Dead jobs of kind $2, made since $3, with an error that begins with $4, get $5 more attempts: the oldest $6, spread
-- over $7.
UPDATE jobs SET state = 'queued', attempts = greatest(0, attempts - $5::int), next_run = now() + random() * $7::interval,
    published_at = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = ANY (ARRAY (
    SELECT id FROM jobs WHERE tenant_id = $1 AND kind = $2 AND state = 'dead' AND created_at >= $3
        AND starts_with(last_error, $4)
    ORDER BY created_at LIMIT $6 FOR UPDATE SKIP LOCKED)) RETURNING id

-- name: wake
-- Jobs of kind $2 that wait for a reason that begins with $3, but is not $4, are due now: the oldest $6, spread over $5.
UPDATE jobs SET next_run = now() + random() * $5::interval, published_at = NULL, last_error = NULL, updated_at = now()
WHERE tenant_id = $1 AND id = ANY (ARRAY (
    SELECT id FROM jobs WHERE tenant_id = $1 AND kind = $2 AND state = 'queued' AND starts_with(last_error, $3)
        AND last_error <> $4
    ORDER BY created_at LIMIT $6 FOR UPDATE SKIP LOCKED)) RETURNING id

-- name: pause
INSERT INTO job_pauses (tenant_id, kind) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: resume
-- $2 a kind, or '*' for every pause.
DELETE FROM job_pauses WHERE tenant_id = $1 AND (kind = $2 OR $2 = '*')

-- name: pauses
SELECT kind FROM job_pauses WHERE tenant_id = $1 ORDER BY kind
