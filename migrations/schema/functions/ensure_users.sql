CREATE OR REPLACE FUNCTION public.ensure_users(p_tenant uuid, p_users jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(p_users) u WHERE user_pk_of(p_tenant, u) IS NULL) THEN
        INSERT INTO users (tenant_id, user_id) SELECT p_tenant, u FROM jsonb_array_elements_text(p_users) u ORDER BY u
            ON CONFLICT DO NOTHING;
    END IF;
END $function$;
COMMENT ON FUNCTION ensure_users(uuid,jsonb) IS 'Insert the users of a batch that are new. They are sorted, so that two transactions cannot deadlock.';
