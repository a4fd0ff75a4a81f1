CREATE OR REPLACE FUNCTION public.queue_comparisons(p_tenant uuid, p_jobs jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
END $function$;
COMMENT ON FUNCTION queue_comparisons(uuid,jsonb) IS 'Queue the jobs `same_fact` among new jobs (rows of id, kind, user_id and payload). A user has one that has not
started: it takes the memories of later writes, as many as a day''s questions can be about. Nightly consolidation
takes the rest.';
