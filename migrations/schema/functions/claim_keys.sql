CREATE OR REPLACE FUNCTION public.claim_keys(p_tenant uuid, p_keys jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    r idempotency_keys;
    v_count int;
BEGIN
    WITH known AS MATERIALIZED (  -- locks the user's row against an erasure
        SELECT user_id FROM users WHERE tenant_id = p_tenant
        AND user_id IN (SELECT k->>'user_id' FROM jsonb_array_elements(p_keys) k) ORDER BY user_id FOR KEY SHARE)
    INSERT INTO idempotency_keys (tenant_id, key_id, route, key, body_hash, user_id, response)
        SELECT p_tenant, k.key_id, k.route, k.key, k.body_hash,
               -- Mnema's own work (no API key) may end after an erasure: it must not name the user again
               CASE WHEN k.key_id = '00000000-0000-0000-0000-000000000000' THEN n.user_id ELSE k.user_id END, '{}'
        FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, body_hash bytea, user_id text)
        LEFT JOIN known n ON n.user_id = k.user_id
        ORDER BY k.key_id, k.route, k.key ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = jsonb_array_length(p_keys) THEN RETURN NULL; END IF;
    IF jsonb_array_length(p_keys) > 1 THEN RAISE EXCEPTION 'used before' USING ERRCODE = 'MN425'; END IF;
    SELECT * INTO r FROM idempotency_keys WHERE tenant_id = p_tenant AND key_id = (p_keys#>>'{0,key_id}')::uuid
        AND route = p_keys#>>'{0,route}' AND key = p_keys#>>'{0,key}';
    RETURN jsonb_build_object('replay', r.response, 'same_body', r.body_hash = (p_keys#>>'{0,body_hash}')::bytea);
END $function$;
COMMENT ON FUNCTION claim_keys(uuid,jsonb) IS 'Insert idempotency records and return NULL if all are new. A second caller with the same key waits for the first
caller''s commit. If the only key was used before, return {replay, same_body}; if one of several was, raise MN425.';
