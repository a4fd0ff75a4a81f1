CREATE OR REPLACE FUNCTION public.expire_receipts(p_tenant uuid, p_receipts timestamp with time zone, p_usage timestamp with time zone, p_limit integer, p_dry_run boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_day date := (p_usage AT TIME ZONE 'UTC')::date;
    v_receipts int;
    v_days int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_dry_run THEN
        RETURN jsonb_build_object(
            'receipts', (SELECT count(*) FROM receipts WHERE tenant_id = p_tenant AND ts < p_receipts),
            'usage_days', (SELECT count(*) FROM usage_days WHERE tenant_id = p_tenant AND day < v_day));
    END IF;
    WITH gone AS (
        DELETE FROM receipts WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
            SELECT id FROM receipts WHERE tenant_id = p_tenant AND ts < p_receipts ORDER BY ts LIMIT p_limit))
                RETURNING id),
    emptied AS (
        DELETE FROM receipt_items i USING gone g WHERE i.tenant_id = p_tenant AND i.receipt_id = g.id)
    SELECT count(*) INTO v_receipts FROM gone;
    DELETE FROM usage_days WHERE tenant_id = p_tenant AND (day, user_id) IN (
        SELECT day, user_id FROM usage_days WHERE tenant_id = p_tenant AND day < v_day ORDER BY day LIMIT p_limit);
    GET DIAGNOSTICS v_days = ROW_COUNT;
    RETURN jsonb_build_object('receipts', v_receipts, 'usage_days', v_days);
END $function$;
COMMENT ON FUNCTION expire_receipts(uuid,timestamp with time zone,timestamp with time zone,integer,boolean) IS 'Delete at most p_limit receipts before p_receipts, with their items, and at most as many rows of usage before
p_usage. Returns the numbers of receipts and days; with p_dry_run, the numbers of all that would go.';
