CREATE OR REPLACE FUNCTION public.refuse_silent_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    r memories := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    PERFORM 1 FROM history h
      WHERE h.tenant_id = r.tenant_id AND h.memory_id = r.id::text AND h.xid = pg_current_xact_id();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'memory % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $function$;
