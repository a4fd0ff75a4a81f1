CREATE OR REPLACE FUNCTION public.delete_runs(p_tenant uuid, p_user text, p_runs text[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_thread uuid;
    v_gone bigint;
    v_all bigint := 0;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    FOR v_thread IN SELECT s.id FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant
        AND (p_user IS NULL OR s.user_id = p_user)
            AND s.id IN (SELECT l.thread_pk FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant
                AND l.run_id = ANY (p_runs))
            ORDER BY s.id FOR UPDATE LOOP
        WITH gone AS (
            DELETE FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread
                AND l.run_id = ANY (p_runs)
            RETURNING l.ns, l.checkpoint_id),
        written AS (
            DELETE FROM checkpoint_writes w USING gone WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread
                AND w.ns = gone.ns
                AND w.checkpoint_id = gone.checkpoint_id)
        SELECT count(*) INTO v_gone FROM gone;
        v_all := v_all + v_gone;
        PERFORM settle_lineage(p_tenant, v_thread);
    END LOOP;
    RETURN v_all;
END $function$;
COMMENT ON FUNCTION delete_runs(uuid,text,text[]) IS 'Delete the checkpoints of runs, with their writes; of one user, or of all if p_user is NULL. Returns how many.';
