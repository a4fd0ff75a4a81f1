-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.fill_past_minilm_l6_v2(p_tenant uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO past_minilm_l6_v2 (tenant_id, user_pk, memory_id, since, until, category, today, state, expires_at,
            embedding, tokens, tsv)
        SELECT p_tenant, m.user_pk, m.id, i.ts, i.until, w.category, m.category, w.state, w.expires_at,
               CASE WHEN w.text = m.text THEN v.embedding END, CASE WHEN w.text = m.text THEN v.tokens END, words_of(w)
        FROM memories m CROSS JOIN LATERAL (
            SELECT h.ts, lead(h.ts) OVER (ORDER BY h.ts, h.id) AS until, h.meta->'after' AS image
            FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text AND h.meta ? 'after') i
        CROSS JOIN LATERAL former_memory(m, i.image) w
        LEFT JOIN vec_minilm_l6_v2 v ON v.tenant_id = p_tenant AND v.memory_id = m.id
        WHERE m.tenant_id = p_tenant AND m.type <> 'chunk' AND i.until > i.ts
        ON CONFLICT DO NOTHING;
END $function$;
COMMENT ON FUNCTION fill_past_minilm_l6_v2(uuid) IS 'Fill the past of a tenant from its history, for the times before the table. The vector of a text that is gone is gone
too: such a memory is found by its words.';
