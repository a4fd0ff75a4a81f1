CREATE OR REPLACE FUNCTION public.request_move(p_tenant uuid, p_id uuid, p_target text, p_per_day integer, OUT outcome text, OUT wait_s integer)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    v_home text := (SELECT p.cluster FROM placements p WHERE p.tenant_id = p_tenant);
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('mnema.move-request:' || p_tenant, 0));
    SELECT ceil(extract(epoch FROM m.started_at + interval '1 day' - clock_timestamp())) INTO wait_s FROM moves m
    WHERE m.tenant_id = p_tenant AND m.details ? 'requested' AND m.started_at > clock_timestamp() - interval '1 day'
    ORDER BY m.started_at DESC OFFSET p_per_day - 1 LIMIT 1;
    outcome := CASE
        WHEN EXISTS (SELECT FROM moves m WHERE m.tenant_id = p_tenant AND m.ended_at IS NULL) THEN 'moving'
        WHEN v_home IS NULL THEN 'unplaced'
        WHEN v_home = p_target THEN 'at_home'
        WHEN wait_s IS NOT NULL THEN 'spent'
        WHEN NOT has_mover() THEN 'no_mover'
        ELSE 'requested' END;
    IF outcome = 'requested' THEN
        INSERT INTO moves (tenant_id, id, source, target, step, details)
            VALUES (p_tenant, p_id, v_home, p_target, 'requested', '{"requested": true, "leave_region": false}')
            ON CONFLICT (tenant_id) WHERE ended_at IS NULL DO NOTHING;
        outcome := CASE WHEN FOUND THEN 'requested' ELSE 'moving' END;  -- an operator's move has just begun
    END IF;
END $function$;
COMMENT ON FUNCTION request_move(uuid,uuid,text,integer) IS 'Store that the tenant is to move to a cluster. Returns `requested`, or what forbids it: `no_mover`, `unplaced`,
`at_home`, `moving`, or `spent`, with the seconds until it may ask again. It may ask `p_per_day` times in 24 hours.';
