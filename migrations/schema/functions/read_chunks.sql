CREATE OR REPLACE FUNCTION public.read_chunks(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_chosen uuid[], p_beside integer)
 RETURNS TABLE(hit uuid, ordinal integer, start_at integer, end_at integer, page integer, heading text[], gap text, source_id uuid, file_id uuid, path text, turn_id uuid, id uuid, user_id text, thread_id text, seq bigint, agent_id text, run_id text, actor_id text, role text, type text, category text, text text, steps_text text, importance smallint, pinned boolean, tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamp with time zone, version integer, created_at timestamp with time zone, updated_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
DECLARE
    v_users bigint[];
    v_hits uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_users := CASE WHEN p_user IS NOT NULL THEN
        ARRAY(SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant AND u.user_id IN (p_user, '_shared')) END;
    p_filters := live_filters(p_tenant, NULL, p_filters);
    v_hits := ARRAY(SELECT m.id FROM unnest(p_chosen) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
        WHERE m.state = 'active' AND m.type = 'chunk' AND m.category = ANY (p_categories)
          AND (v_users IS NULL OR m.user_pk = ANY (v_users)) AND memory_matches(m, p_filters - 'type'));
    RETURN QUERY
        WITH placed AS (  -- the chunks and the files or turns that they are of, if they may be answered
            SELECT m.id AS hit, c.file_id, c.turn_id, c.ordinal, f.path, f.source_id, c.memory_id IS NOT NULL AS known
            FROM unnest(v_hits) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
            LEFT JOIN chunks c ON c.tenant_id = p_tenant AND c.memory_id = h.id
            LEFT JOIN files f ON f.tenant_id = p_tenant AND f.id = c.file_id
            LEFT JOIN sources s ON s.tenant_id = p_tenant AND s.id = f.source_id
            LEFT JOIN memories t ON t.tenant_id = p_tenant AND t.id = c.turn_id
            WHERE CASE WHEN c.memory_id IS NULL THEN NOT coalesce(m.source ?| '{file_id,turn_id}', false)
                       WHEN c.turn_id IS NULL THEN s.removed_at IS NULL AND length(m.text) = c.end_at - c.start_at
                       ELSE t.state = 'active' AND memory_matches(t, turn_filters(p_filters))
                            AND substr(t.text, c.start_at + 1, c.end_at - c.start_at) = m.text END)
        SELECT p.hit, n.ordinal, n.start_at, n.end_at, n.page, n.heading, n.gap, p.source_id, p.file_id, p.path,
            p.turn_id, m.id, m.user_id,
            m.thread_id, m.seq, m.agent_id, m.run_id, m.actor_id, m.role, m.type, m.category, m.text, m.steps_text,
                m.importance,
            m.pinned, m.tags, m.state, m.source, m.metadata, m.superseded_by, m.purge_at, m.version,
                m.created_at, m.updated_at
        FROM placed p
        CROSS JOIN LATERAL (
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.file_id = p.file_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.turn_id = p.turn_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT p.hit, NULL, NULL, NULL, NULL, NULL, NULL WHERE NOT p.known) n
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = n.memory_id AND m.state = 'active'
            AND m.category = ANY (p_categories)
            AND (v_users IS NULL OR m.user_pk = ANY (v_users))
                AND (NOT p.known OR length(m.text) = n.end_at - n.start_at)
        ORDER BY p.hit, n.ordinal;
END $function$;
COMMENT ON FUNCTION read_chunks(uuid,text,text[],jsonb,uuid[],integer) IS 'Return the chunks p_chosen that may still be answered, with their places, and up to p_beside chunks before and after
each one in its file or turn. `hit` is the chosen one. A chunk that somebody stored without a source has no place.
One of a removed source is not answered, nor one whose text was changed, nor one of a turn that is not active, that
the filters leave out, or that has another text now.';
