-- Background jobs. A job is inserted in the transaction of the change that causes it; a row that was not published yet is
-- the outbox. All times are the database's, so that the clocks of workers do not matter.

CREATE TABLE jobs (
    tenant_id     uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id            uuid NOT NULL,
    kind          text NOT NULL,
    state         text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'dead')),
    user_id       text,                             -- the job is deleted when this user is erased
    payload       jsonb NOT NULL DEFAULT '{}',      -- ids, no text
    payload_hash  text NOT NULL GENERATED ALWAYS AS (md5(payload::text)) STORED,
    slot          text,                             -- of a scheduled job: unique for a tenant and kind
    attempts      integer NOT NULL DEFAULT 0,
    next_run      timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz,                      -- last given to the broker; NULL: not since the job became due
    lease_until   timestamptz,                      -- a running job is taken over when its lease ends
    worker        text,
    last_error    text,
    report        jsonb,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, kind, slot)
) WITH (fillfactor = 70);
CREATE INDEX jobs_due ON jobs (next_run) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_listed ON jobs (tenant_id, created_at DESC, id DESC);
CREATE INDEX jobs_of_user ON jobs (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (tenant_id, updated_at) WHERE state IN ('done', 'dead');
CREATE INDEX jobs_dead ON jobs (tenant_id, kind, created_at) WHERE state = 'dead';

CREATE TABLE job_pauses (
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind       text NOT NULL,                       -- '*': every kind
    paused_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs, job_pauses TO mnema_app;

-- Return the due jobs of all tenants that the broker should get (security.sql). A job that no worker started within
-- p_again comes again, and so does a job whose lease ended.
CREATE FUNCTION claim_jobs(p_limit int, p_again interval)
    RETURNS TABLE (tenant_id uuid, id uuid, kind text) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT j.tenant_id, j.id, j.kind FROM jobs j
    WHERE j.state IN ('queued', 'running') AND j.next_run <= now() AND (j.state = 'queued' OR j.lease_until < now())
      AND (j.published_at IS NULL OR j.published_at < now() - p_again
           OR j.state = 'running' AND j.published_at < j.lease_until)
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'))
    ORDER BY j.next_run LIMIT p_limit;
$$;

-- Return for how many seconds the oldest due job of any tenant has waited; NULL if none is due (security.sql).
CREATE FUNCTION jobs_behind() RETURNS double precision LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT extract(epoch FROM now() - min(j.next_run))::double precision FROM jobs j
    WHERE j.state IN ('queued', 'running') AND j.next_run <= now() AND (j.state = 'queued' OR j.lease_until < now())
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'));
$$;

-- Return the paused kinds with the number of tenants (security.sql). They tell work that an operator paused from work
-- that waits for a worker.
CREATE FUNCTION paused_jobs() RETURNS TABLE (kind text, tenants bigint) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.kind, count(*) FROM job_pauses p GROUP BY p.kind ORDER BY p.kind;
$$;

-- Start a due job for a worker, with a lease of p_lease. Returns no row if the job is not due, paused, running elsewhere
-- or done. A job that was started p_most times without an end is returned dead.
CREATE FUNCTION start_job(p_tenant uuid, p_id uuid, p_worker text, p_lease interval, p_most int)
    RETURNS SETOF jobs LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY
        UPDATE jobs j SET state = 'dead', lease_until = NULL, updated_at = now(),
                          last_error = 'no worker lived to the end of it; last ' || coalesce(j.worker, 'none')
            WHERE j.tenant_id = p_tenant AND j.id = p_id AND j.state = 'running' AND j.lease_until < now()
              AND j.attempts >= p_most
            RETURNING j.*;
    RETURN QUERY
        UPDATE jobs j SET state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = now() + p_lease,
                          updated_at = now()
            WHERE j.tenant_id = p_tenant AND j.id = p_id AND j.next_run <= now()
              AND (j.state = 'queued' OR j.state = 'running' AND j.lease_until < now())
              AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = p_tenant AND p.kind IN (j.kind, '*'))
            RETURNING j.*;
END $$;
GRANT EXECUTE ON FUNCTION claim_jobs(int, interval), jobs_behind(), paused_jobs(),
    start_job(uuid, uuid, text, interval, int) TO mnema_app;
