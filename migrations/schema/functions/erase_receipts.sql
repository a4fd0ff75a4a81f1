CREATE OR REPLACE FUNCTION public.erase_receipts(p_tenant uuid, p_user text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_receipts int;
    v_items int;
BEGIN
    WITH gone AS (DELETE FROM receipts WHERE tenant_id = p_tenant AND user_id = p_user RETURNING id),
    emptied AS (
        DELETE FROM receipt_items i USING gone g WHERE i.tenant_id = p_tenant AND i.receipt_id = g.id)
    SELECT count(*) INTO v_receipts FROM gone;
    DELETE FROM receipt_items WHERE tenant_id = p_tenant AND memory_id = ANY (ARRAY (
        SELECT id FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user)
        UNION ALL SELECT id FROM facts WHERE tenant_id = p_tenant AND user_id = p_user));
    GET DIAGNOSTICS v_items = ROW_COUNT;
    RETURN jsonb_build_object('receipts', v_receipts, 'receipt_items', v_items);
END $function$;
COMMENT ON FUNCTION erase_receipts(uuid,text) IS 'Delete the receipts of a user, and the user''s memories and facts from all other receipts. Returns the
numbers of rows. The caller holds the locks of the user''s row and memories.';
