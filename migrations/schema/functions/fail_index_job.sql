CREATE OR REPLACE FUNCTION public.fail_index_job()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
BEGIN
    UPDATE index_jobs SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = coalesce(new.last_error, 'job_failed')
        WHERE tenant_id = new.tenant_id AND id = (new.payload->>'index_job_id')::uuid
            AND state IN ('queued', 'running');
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION fail_index_job() IS 'An index job fails with its job in the queue, also if no worker lives to say so.';
