CREATE OR REPLACE FUNCTION public.queue_index_job(p_tenant uuid, p_source uuid, p_id uuid, p_job uuid, p_kind text, p_cause text)
 RETURNS SETOF index_jobs
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_source sources;
    v_waiting index_jobs;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT * INTO v_source FROM sources WHERE tenant_id = p_tenant AND id = p_source FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT j.* INTO v_waiting FROM index_jobs j WHERE j.tenant_id = p_tenant AND j.source_id = p_source
        AND j.state = 'queued';
    IF FOUND AND EXISTS (SELECT FROM jobs WHERE tenant_id = p_tenant AND id = v_waiting.job_id
        AND state IN ('queued', 'running')) THEN
        IF v_source.removed_at IS NOT NULL AND v_waiting.kind <> 'removal' THEN
            UPDATE index_jobs SET kind = 'removal', cause = p_cause, updated_at = clock_timestamp()
                WHERE tenant_id = p_tenant AND id = v_waiting.id RETURNING * INTO v_waiting;
        END IF;
        RETURN NEXT v_waiting;
        RETURN;
    END IF;
    UPDATE index_jobs SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = 'job_failed: its job ended before it began'
        WHERE tenant_id = p_tenant AND id = v_waiting.id;
    INSERT INTO jobs (tenant_id, id, kind, user_id, payload) VALUES (p_tenant, p_job, 'index_source', v_source.user_id,
        jsonb_build_object('source_id', p_source, 'index_job_id', p_id));
    RETURN QUERY INSERT INTO index_jobs AS i (tenant_id, id, source_id, user_id, job_id, kind, cause, state)
        VALUES (p_tenant, p_id, p_source, v_source.user_id, p_job,
                CASE WHEN v_source.removed_at IS NULL THEN p_kind ELSE 'removal' END, p_cause, 'queued')
        RETURNING i.*;
END $function$;
COMMENT ON FUNCTION queue_index_job(uuid,uuid,uuid,uuid,text,text) IS 'Queue an index job of a source with its job, and return it; or return the one that waits already. Returns no row if
there is no such source. A removed source gets a removal, whatever is asked for, and a job that waits becomes one.';
