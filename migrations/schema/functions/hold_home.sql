CREATE OR REPLACE FUNCTION public.hold_home(p_tenant uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_home public.residences;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(public.home_lock(p_tenant));
    SELECT * INTO v_home FROM public.residences r WHERE r.tenant_id = p_tenant;
    IF v_home.state IS DISTINCT FROM 'home' THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
    IF v_home.number > 0 THEN PERFORM public.raise_stamps(v_home.number); END IF;
END $function$;
COMMENT ON FUNCTION hold_home(uuid) IS 'Hold the tenant''s home until the transaction ends. Raises MN421 if it is elsewhere. The residence is read after the
lock, by a statement of its own, so it is the newest one.';
