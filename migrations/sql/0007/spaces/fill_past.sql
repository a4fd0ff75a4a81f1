-- Fill the past of the next p_limit memories of a tenant (NULL: of all) from its history, for the times before the
-- table. The vector of a text that is gone is gone too: such a memory is found by its words. What was kept since the
-- table is there has its vector already, and learns only since when it was so. Return the number of memories that were
-- read; with fewer than p_limit the tenant's past is complete. Each call goes on behind the last one.
CREATE FUNCTION fill_past_{space}(p_tenant uuid, p_limit int DEFAULT NULL) RETURNS int LANGUAGE plpgsql AS $fn$
DECLARE
    v_after uuid;
    v_ids uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT f.after_id INTO v_after FROM history_fills f WHERE f.tenant_id = p_tenant AND f.space = '{space}' FOR UPDATE;
    IF NOT FOUND THEN RETURN 0; END IF;
    -- A change of such a memory, which keeps its past too, waits.
    v_ids := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND (v_after IS NULL OR m.id > v_after)
                   ORDER BY m.id LIMIT p_limit FOR SHARE);
    INSERT INTO past_{space} AS p (tenant_id, user_pk, memory_id, since, until, category, today, state, expires_at,
            embedding, tokens, tsv)
        SELECT p_tenant, m.user_pk, m.id, i.ts, i.until, w.category, m.category, w.state, w.expires_at,
               CASE WHEN w.text = m.text THEN v.embedding END, CASE WHEN w.text = m.text THEN v.tokens END, words_of(w)
        FROM memories m CROSS JOIN LATERAL (
            SELECT h.ts, lead(h.ts) OVER (ORDER BY h.ts, h.id) AS until, h.meta->'after' AS image
            FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text AND h.meta ? 'after') i
        CROSS JOIN LATERAL former_memory(m, i.image) w
        LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id
        WHERE m.tenant_id = p_tenant AND m.id = ANY (v_ids) AND m.type <> 'chunk' AND i.until > i.ts
        ON CONFLICT (tenant_id, memory_id, until) DO UPDATE SET since = excluded.since;
    IF cardinality(v_ids) < p_limit OR p_limit IS NULL THEN
        DELETE FROM history_fills WHERE tenant_id = p_tenant AND space = '{space}';
    ELSE
        UPDATE history_fills SET after_id = v_ids[cardinality(v_ids)] WHERE tenant_id = p_tenant AND space = '{space}';
    END IF;
    RETURN cardinality(v_ids);
END $fn$;
GRANT EXECUTE ON FUNCTION fill_past_{space} TO mnema_app;
