CREATE OR REPLACE FUNCTION public.begin_index_job(p_tenant uuid, p_id uuid)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_job index_jobs;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT * INTO v_job FROM index_jobs WHERE tenant_id = p_tenant AND id = p_id;
    PERFORM 1 FROM sources WHERE tenant_id = p_tenant AND id = v_job.source_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'ended'; END IF;
    UPDATE index_jobs i SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = 'job_failed: its job is gone'
        WHERE tenant_id = p_tenant AND source_id = v_job.source_id AND id <> p_id AND state IN ('queued', 'running')
          AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = p_tenant AND j.id = i.job_id
              AND j.state IN ('queued', 'running'));
    SELECT * INTO v_job FROM index_jobs WHERE tenant_id = p_tenant AND id = p_id;
    IF v_job.state = 'done' THEN RETURN 'ended'; END IF;
    IF EXISTS (SELECT FROM index_jobs WHERE tenant_id = p_tenant AND source_id = v_job.source_id AND id <> p_id
               AND state = 'running') THEN RETURN 'busy'; END IF;
    UPDATE index_jobs SET state = 'running', error = NULL, ended_at = NULL,
        started_at = coalesce(started_at, clock_timestamp()),
            updated_at = clock_timestamp()
        WHERE tenant_id = p_tenant AND id = p_id;
    RETURN 'running';
END $function$;
COMMENT ON FUNCTION begin_index_job(uuid,uuid) IS 'Begin an index job, or go on with it. Returns ''running''; ''busy'' if another one of the source runs; ''ended'' if there
is nothing to do any more. A job of the source whose job in the queue is gone counts as failed.';
