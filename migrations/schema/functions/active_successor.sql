CREATE OR REPLACE FUNCTION public.active_successor(p_tenant uuid, p_id uuid)
 RETURNS memories
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    r memories;
BEGIN
    FOR i IN 1 .. 100 LOOP
        SELECT * INTO r FROM memories WHERE tenant_id = p_tenant AND id = p_id;
        IF r.state = 'active' THEN RETURN r; END IF;
        IF r.superseded_by IS NULL THEN RETURN NULL; END IF;
        p_id := r.superseded_by;
    END LOOP;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION active_successor(uuid,uuid) IS 'Return the active memory that took a superseded one''s place, NULL if there is none any more.';
