CREATE OR REPLACE FUNCTION public.end_residence(p_tenant uuid, OUT residence_epoch bigint, OUT epoch uuid, OUT up_to bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_number smallint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    SELECT r.number INTO v_number FROM residences r WHERE r.tenant_id = p_tenant;
    SELECT l.epoch, l.stamp INTO epoch, up_to FROM last_stamp(v_number) l;
    INSERT INTO tenant_epochs AS e (tenant_id, epoch, up_to) VALUES (p_tenant, end_residence.epoch, end_residence.up_to)
        ON CONFLICT ON CONSTRAINT tenant_epochs_pkey DO UPDATE SET up_to = excluded.up_to;
    UPDATE residences r SET state = 'away', epoch = r.epoch + 1, changed_at = clock_timestamp()
        WHERE r.tenant_id = p_tenant AND r.state = 'home' RETURNING r.epoch INTO residence_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
END $function$;
COMMENT ON FUNCTION end_residence(uuid) IS 'End the tenant''s residence here. It waits for the writes that hold the home, and those after it wait for the commit
and are refused. Returns what the other cluster needs for `begin_residence`. Raises MN421 if there is none to end.
The row of `tenant_epochs` is the last that the tenant writes here: a cluster that has it has everything.';
