-- Background work. A job is written in the transaction of the change it follows from; a row that was never published is
-- the outbox. Times are the database's, so that no clock of a worker counts.
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'mnema_jobs') THEN
        RAISE EXCEPTION 'the role mnema_jobs is missing: run the bootstrap once more, as superuser, then migrate';
    END IF;
END $$;
DROP TABLE outbox;

CREATE TABLE jobs (
    tenant_id     uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id            uuid NOT NULL,
    kind          text NOT NULL,
    state         text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'dead')),
    user_id       text,                             -- whom it is about: it goes when they are erased
    payload       jsonb NOT NULL DEFAULT '{}',      -- ids, never text
    payload_hash  text NOT NULL GENERATED ALWAYS AS (md5(payload::text)) STORED,
    slot          text,                             -- of a scheduled job: one a tenant, kind and slot
    attempts      integer NOT NULL DEFAULT 0,
    next_run      timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz,                      -- last handed to the broker; NULL: not since it became due
    lease_until   timestamptz,                      -- a running job whose worker says nothing for so long is taken over
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

CREATE TABLE job_pauses (                           -- kind '*': every kind
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind       text NOT NULL,
    paused_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, kind)
);

CREATE TABLE consolidation_pairs (                  -- pairs judged lately, so that they are not judged again
    tenant_id   uuid NOT NULL,
    low         uuid NOT NULL,                      -- the lesser id of the two
    high        uuid NOT NULL,
    score       real NOT NULL,                      -- rounded to two places
    user_pk     bigint NOT NULL,
    same        boolean NOT NULL,
    checked_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, low, high, score),
    FOREIGN KEY (tenant_id, user_pk) REFERENCES users (tenant_id, user_pk) ON DELETE CASCADE
);
CREATE INDEX consolidation_pairs_of_user ON consolidation_pairs (tenant_id, user_pk, checked_at);

-- When Mnema learned it: what was imported with an old date is not old here, so forgetting does not take it at once.
ALTER TABLE memories ADD COLUMN stored_at timestamptz NOT NULL DEFAULT now();

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['jobs', 'job_pauses', 'consolidation_pairs'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs, job_pauses, consolidation_pairs TO mnema_app;
GRANT UPDATE (created_at) ON memories TO mnema_app;  -- merged memories keep the oldest

-- What is due and was not handed to the broker since it became due, of every tenant: the only cross-tenant look at work.
-- What nobody started within p_again comes again, and so does what lost its worker.
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

-- How many seconds the oldest due job of any tenant has waited; NULL when none is due.
CREATE FUNCTION jobs_behind() RETURNS double precision LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT extract(epoch FROM now() - min(j.next_run))::double precision FROM jobs j
    WHERE j.state IN ('queued', 'running') AND j.next_run <= now() AND (j.state = 'queued' OR j.lease_until < now())
      AND NOT EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = j.tenant_id AND p.kind IN (j.kind, '*'));
$$;

-- Takes a due job for a worker, for p_lease; no row when it is not due, paused, running elsewhere or done. One that was
-- tried p_most times without an end comes back dead: it took its workers along.
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

GRANT EXECUTE ON FUNCTION start_job(uuid, uuid, text, interval, int), claim_jobs(int, interval),
    jobs_behind() TO mnema_app;
GRANT SELECT ON jobs, job_pauses TO mnema_jobs;
CREATE POLICY claim ON jobs FOR SELECT TO mnema_jobs USING (true);
CREATE POLICY claim ON job_pauses FOR SELECT TO mnema_jobs USING (true);
GRANT USAGE, CREATE ON SCHEMA public TO mnema_jobs;
ALTER FUNCTION claim_jobs(int, interval) OWNER TO mnema_jobs;
ALTER FUNCTION jobs_behind() OWNER TO mnema_jobs;
REVOKE CREATE ON SCHEMA public FROM mnema_jobs;
