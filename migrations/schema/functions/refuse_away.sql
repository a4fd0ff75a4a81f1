CREATE OR REPLACE FUNCTION public.refuse_away()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_tenant uuid := nullif(current_setting('app.tenant_id', true), '')::uuid;
BEGIN
    IF v_tenant IS NOT NULL THEN PERFORM public.hold_home(v_tenant); END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION refuse_away() IS 'A statement without a tenant reaches no row of one, by row-level security.';
