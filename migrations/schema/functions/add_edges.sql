CREATE OR REPLACE FUNCTION public.add_edges(p_tenant uuid, p_edges jsonb, p_retold text[])
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_related jsonb;
BEGIN
    IF p_retold <> '{}' THEN
        -- lock all of them in order, so that two transactions cannot deadlock
        PERFORM 1 FROM relations WHERE tenant_id = p_tenant AND (from_id = ANY (p_retold) OR to_id = ANY (p_retold))
            ORDER BY id FOR UPDATE;
        DELETE FROM relations r WHERE r.tenant_id = p_tenant
            AND (r.from_id = ANY (p_retold) OR r.to_id = ANY (p_retold))
            AND NOT EXISTS (SELECT 1 FROM jsonb_to_recordset(p_edges) AS e(from_id text, to_id text)
                            WHERE least(e.from_id, e.to_id) = least(r.from_id, r.to_id)
                              AND greatest(e.from_id, e.to_id) = greatest(r.from_id, r.to_id));
    END IF;
    IF p_edges = '[]' THEN RETURN '{}'; END IF;
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT ON (least(from_id, to_id), greatest(from_id, to_id)) *
        FROM jsonb_to_recordset(p_edges) AS e(id uuid, memory_id text, link_id uuid, actor text,
            from_id text, to_id text,
            category text, strength real)
        WHERE (SELECT count(*) FROM memories m WHERE m.tenant_id = p_tenant
            AND m.id IN (e.from_id::uuid, e.to_id::uuid)) = 2
        ORDER BY least(from_id, to_id), greatest(from_id, to_id)),
    made AS (
        INSERT INTO relations AS r (tenant_id, id, from_id, to_id, strength)
            SELECT p_tenant, id, from_id, to_id, strength FROM asked
            ON CONFLICT (tenant_id, least(from_id, to_id), greatest(from_id, to_id)) DO UPDATE
                SET strength = excluded.strength
                WHERE r.from_id = ANY (p_retold) OR r.to_id = ANY (p_retold)
            RETURNING least(from_id, to_id) AS low, greatest(from_id, to_id) AS high),
    linked AS (
        INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
            SELECT p_tenant, a.link_id, a.memory_id, 'LINK', a.actor, jsonb_build_object('edges', jsonb_agg(
                jsonb_build_object('id', CASE WHEN a.from_id = a.memory_id THEN a.to_id ELSE a.from_id END,
                                   'category', a.category, 'strength', a.strength))), clock_timestamp()
            FROM asked a JOIN made m ON m.low = least(a.from_id, a.to_id) AND m.high = greatest(a.from_id, a.to_id)
            GROUP BY a.link_id, a.memory_id, a.actor
            RETURNING memory_id, jsonb_array_length(meta->'edges') AS edges)
    SELECT jsonb_object_agg(memory_id, edges) INTO v_related FROM linked;
    RETURN coalesce(v_related, '{}');
END $function$;
COMMENT ON FUNCTION add_edges(uuid,jsonb,text[]) IS 'Insert relations, one for each pair in either direction, and a LINK row for each memory that got one. The relations
of p_retold are replaced: those that are not in p_edges go, the others get the new strength. A memory that was purged
meanwhile gets none. Returns {memory_id: number of relations}.';
