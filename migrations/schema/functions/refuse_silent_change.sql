CREATE OR REPLACE FUNCTION public.refuse_silent_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    r memories := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    -- OFFSET 0: not by history_by_transaction, which holds every other memory of the transaction
    PERFORM 1 FROM (SELECT h.stamp FROM history h WHERE h.tenant_id = r.tenant_id
        AND h.memory_id = r.id::text OFFSET 0) o
      WHERE o.stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'memory % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION refuse_silent_change() IS 'Refuse, at commit, a change of a memory without a history row of the same transaction.';
