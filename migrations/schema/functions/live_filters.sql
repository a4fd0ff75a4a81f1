CREATE OR REPLACE FUNCTION public.live_filters(p_tenant uuid, p_user bigint, p_filters jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_first bigint := coalesce(p_user, 0);  -- bounds in variables, so that the index is used
    v_last bigint := coalesce(p_user, 9223372036854775807);
BEGIN
    IF EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk BETWEEN v_first AND v_last
               AND m.state = 'active' AND m.expires_at <= now()) THEN
        RETURN coalesce(p_filters, '{}') || jsonb_build_object('unexpired_at', now());
    END IF;
    RETURN p_filters;
END $function$;
COMMENT ON FUNCTION live_filters(uuid,bigint,jsonb) IS 'Return the filters of a query, with a condition that leaves out expired memories if the user, or the tenant without
one, has an overdue one: active still, because no job has turned it yet. Without such a memory the filters stay as
they are, so that a query without filters keeps its faster statement.';
