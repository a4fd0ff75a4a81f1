CREATE OR REPLACE FUNCTION public.start_job(p_tenant uuid, p_id uuid, p_worker text, p_lease interval, p_most integer)
 RETURNS SETOF jobs
 LANGUAGE plpgsql
AS $function$
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
END $function$;
COMMENT ON FUNCTION start_job(uuid,uuid,text,interval,integer) IS 'Start a due job for a worker, with a lease of p_lease. Returns no row if the job is not due, paused, running
elsewhere or done, or if it only compares what was written and turns or files of the tenant wait. A job that was
started p_most times without an end is returned dead.';
