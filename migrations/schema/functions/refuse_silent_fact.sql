CREATE OR REPLACE FUNCTION public.refuse_silent_fact()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    r facts := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    IF tg_op = 'UPDATE' AND (old.kind, old.rank, old.value, old.removed_at)
                            IS NOT DISTINCT FROM (new.kind, new.rank, new.value, new.removed_at) THEN
        RETURN NULL;
    END IF;
    PERFORM 1 FROM history h
      WHERE h.tenant_id = r.tenant_id AND h.memory_id = r.id::text AND h.stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fact % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION refuse_silent_fact() IS 'Refuse, at commit, a change of a fact without a history row of the same transaction. The time of a statement that
says the same again is no change.';
