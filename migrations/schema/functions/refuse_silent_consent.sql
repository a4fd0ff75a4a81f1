CREATE OR REPLACE FUNCTION public.refuse_silent_consent()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    r jsonb := to_jsonb(CASE WHEN tg_op = 'DELETE' THEN old ELSE new END);
    v_imported boolean := tg_op = 'INSERT' AND coalesce(r->>'state', 'pending') <> 'pending';
BEGIN
    PERFORM 1 FROM history h
      WHERE h.tenant_id = (r->>'tenant_id')::uuid AND h.memory_id = coalesce(r->>'patch_id', r->>'id')
        AND h.stamp = transaction_stamp() AND (NOT v_imported OR h.meta ? 'imported');
    IF NOT FOUND THEN
        RAISE EXCEPTION '% of % was changed (%) without a history row in the same transaction',
            coalesce(r->>'patch_id', r->>'id'), tg_table_name, tg_op USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION refuse_silent_consent() IS 'Refuse, at commit, a change of a proposal or a value without a history row of the same transaction. If a proposal is
stored decided, that row must say that it was imported.';
