CREATE OR REPLACE FUNCTION public.refuse_undecided_value()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
BEGIN
    IF tg_op = 'UPDATE' AND new IS NOT DISTINCT FROM old THEN RETURN NULL; END IF;
    PERFORM 1 FROM context_patches p
      WHERE p.tenant_id = new.tenant_id AND p.id = new.patch_id AND p.user_id = new.user_id AND p.field = new.field
        AND p.value = new.value AND p.state IN ('approved', 'applied')
        AND (p.decided_stamp = transaction_stamp()
             OR p.decided_stamp IS NULL AND tg_op = 'INSERT' AND NOT has_own_history(p.tenant_id, p.id));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no proposal decided in this transaction puts this value' USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION refuse_undecided_value() IS 'Refuse a value unless its own proposal is decided in this transaction: an old decision cannot be used again.
An imported decision, which has no stamp, puts its value where none stands, unless something happened to it here.';
