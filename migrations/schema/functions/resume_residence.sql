CREATE OR REPLACE FUNCTION public.resume_residence(p_tenant uuid, p_residence_epoch bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_epoch bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    UPDATE residences SET state = 'home', epoch = epoch + 1, changed_at = clock_timestamp()
        WHERE tenant_id = p_tenant AND state = 'away' AND epoch = p_residence_epoch RETURNING epoch INTO v_epoch;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the residence % of the tenant % is not known here', p_residence_epoch, p_tenant
            USING ERRCODE = 'MN421';
    END IF;
    RETURN v_epoch;
END $function$;
COMMENT ON FUNCTION resume_residence(uuid,bigint) IS 'Take back an ended residence, if the move goes back before the other one has begun. Returns its new epoch.';
