-- Background jobs. A job is inserted in the transaction of the change that causes it; a row that was not published yet
-- is the outbox. All times are the database's, so that the clocks of workers do not matter.

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
CREATE INDEX jobs_same_fact ON jobs (tenant_id, user_id) WHERE kind = 'same_fact' AND state = 'queued';
CREATE INDEX jobs_ended ON jobs (tenant_id, updated_at) WHERE state IN ('done', 'dead');
CREATE INDEX jobs_dead ON jobs (tenant_id, kind, created_at) WHERE state = 'dead';

CREATE TABLE job_pauses (
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind       text NOT NULL,                       -- '*': every kind
    paused_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs, job_pauses TO mnema_app;

-- Queue the jobs `same_fact` among new jobs (rows of id, kind, user_id and payload). A user has one that has not
-- started: it takes the memories of later writes, as many as a day's questions can be about. Nightly consolidation
-- takes the rest.
CREATE FUNCTION queue_comparisons(p_tenant uuid, p_jobs jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_job record;
BEGIN
    FOR v_job IN SELECT j.* FROM jsonb_to_recordset(p_jobs) AS j(id uuid, kind text, user_id text, payload jsonb)
                 WHERE j.kind = 'same_fact' ORDER BY j.user_id, j.id LOOP  -- in order, so that no two writes deadlock
        PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || ':' || v_job.user_id, 1));
        UPDATE jobs j SET payload = jsonb_build_object(
                'memory_ids', (SELECT jsonb_agg(ids.value) FROM (
                    SELECT value FROM jsonb_array_elements(j.payload->'memory_ids')
                    UNION SELECT value FROM jsonb_array_elements(v_job.payload->'memory_ids') LIMIT 200) ids),
                'neighbours', (SELECT jsonb_agg(ids.value) FROM (
                    SELECT value FROM jsonb_array_elements(j.payload->'neighbours')
                    UNION SELECT value FROM jsonb_array_elements(v_job.payload->'neighbours') LIMIT 1000) ids))
            WHERE j.tenant_id = p_tenant AND j.state = 'queued' AND j.id = (
                SELECT w.id FROM jobs w WHERE w.tenant_id = p_tenant AND w.user_id = v_job.user_id
                                          AND w.kind = 'same_fact' AND w.state = 'queued' ORDER BY w.id LIMIT 1);
        CONTINUE WHEN FOUND;
        INSERT INTO jobs (tenant_id, id, kind, user_id, payload)
            VALUES (p_tenant, v_job.id, v_job.kind, v_job.user_id, v_job.payload);
    END LOOP;
END $$;

-- A time further ahead than any that Mnema sets was set while this clock was wrong. It counts as past, so that jobs go
-- on by themselves when the clock is right again. The application (`app/domain/jobs/job.py`) keeps within these two.
CREATE FUNCTION longest_job_wait() RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN interval '2 days';
CREATE FUNCTION longest_job_lease() RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN interval '1 hour';

-- Return the two spans of time in which a job's next_run makes it due.
CREATE FUNCTION due_times() RETURNS TABLE (after timestamptz, until timestamptz) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    VALUES ('-infinity'::timestamptz, now()), (now() + longest_job_wait(), 'infinity'::timestamptz);
$$;

-- Tell whether a job with this next_run is due.
CREATE FUNCTION is_due(p_next_run timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN p_next_run <= now() OR p_next_run > now() + longest_job_wait();

-- Tell whether a lease is over.
CREATE FUNCTION is_lease_over(p_until timestamptz) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN p_until < now() OR p_until > now() + longest_job_lease();

-- Tell whether a published job must be published again because nobody started it within p_again. A concurrent sweep's
-- time may be a little later than this transaction's.
CREATE FUNCTION is_publication_lost(p_published_at timestamptz, p_again interval) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN p_published_at < now() - p_again OR p_published_at > now() + longest_job_lease();

-- Return the due jobs of all tenants that the broker should get (security.sql), those that only compare memories last.
-- A job that no worker started within p_again comes again, and so does a job whose lease ended.
CREATE FUNCTION claim_jobs(p_limit int, p_again interval)
    RETURNS TABLE (tenant_id uuid, id uuid, kind text) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT d.tenant_id, d.id, d.kind FROM (VALUES (false), (true)) late(compares) CROSS JOIN LATERAL (
        SELECT j.tenant_id, j.id, j.kind, j.next_run FROM due_times() t JOIN jobs j ON j.next_run > t.after
            AND j.next_run <= t.until
        WHERE j.state IN ('queued', 'running') AND (j.state = 'queued' OR is_lease_over(j.lease_until))
          AND (j.published_at IS NULL OR is_publication_lost(j.published_at, p_again)
               OR j.state = 'running' AND j.published_at < j.lease_until)
          AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'))
          AND (j.kind IN ('same_fact', 'consolidate')) = late.compares
        ORDER BY j.next_run LIMIT p_limit) d
    ORDER BY late.compares, d.next_run LIMIT p_limit;
$$;

-- Return for how many seconds the oldest due job of any tenant has waited; NULL if none is due (security.sql).
CREATE FUNCTION jobs_behind() RETURNS double precision LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT extract(epoch FROM now() - min(least(j.next_run, now())))::double precision
    FROM due_times() t JOIN jobs j ON j.next_run > t.after AND j.next_run <= t.until
    WHERE j.state IN ('queued', 'running') AND (j.state = 'queued' OR is_lease_over(j.lease_until))
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'));
$$;

-- Return the paused kinds with the number of tenants (security.sql). They tell work that an operator paused from work
-- that waits for a worker.
CREATE FUNCTION paused_jobs() RETURNS TABLE (kind text, tenants bigint) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.kind, count(*) FROM job_pauses p GROUP BY p.kind ORDER BY p.kind;
$$;

-- Start a due job for a worker, with a lease of p_lease. Returns no row if the job is not due, paused, running
-- elsewhere or done, or if it only compares what was written and turns or files of the tenant wait. A job that was
-- started p_most times without an end is returned dead.
CREATE FUNCTION start_job(p_tenant uuid, p_id uuid, p_worker text, p_lease interval, p_most int)
    RETURNS SETOF jobs LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY
        UPDATE jobs j SET state = 'dead', lease_until = NULL, updated_at = now(),
                          last_error = 'no worker lived to the end of it; last ' || coalesce(j.worker, 'none')
            WHERE j.tenant_id = p_tenant AND j.id = p_id AND j.state = 'running' AND is_lease_over(j.lease_until)
              AND j.attempts >= p_most
            RETURNING j.*;
    RETURN QUERY
        UPDATE jobs j SET state = 'running', attempts = j.attempts + 1, worker = p_worker,
            lease_until = now() + p_lease,
                          updated_at = now()
            WHERE j.tenant_id = p_tenant AND j.id = p_id AND is_due(j.next_run)
              AND (j.state = 'queued' OR j.state = 'running' AND is_lease_over(j.lease_until))
              AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = p_tenant AND p.kind IN (j.kind, '*'))
              -- after ten minutes it starts all the same, or a steady stream of turns would hold it back for ever
              AND (j.kind <> 'same_fact' OR j.next_run NOT BETWEEN now() - interval '10 minutes' AND now()
                  OR NOT EXISTS (
                  SELECT 1 FROM jobs o WHERE o.tenant_id = p_tenant AND o.state = 'queued' AND is_due(o.next_run)
                      AND o.kind IN ('after_turn', 'reflect_turn', 'index_source', 'turn_chunks')
                      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = p_tenant
                                                                   AND p.kind IN (o.kind, '*'))))
            RETURNING j.*;
END $$;
GRANT EXECUTE ON FUNCTION longest_job_wait(), longest_job_lease(), due_times(), is_due(timestamptz),
    is_lease_over(timestamptz),
    is_publication_lost(timestamptz, interval) TO mnema_app, mnema_jobs;
GRANT EXECUTE ON FUNCTION claim_jobs(int, interval), jobs_behind(), paused_jobs(),
    queue_comparisons(uuid, jsonb), start_job(uuid, uuid, text, interval, int) TO mnema_app;
