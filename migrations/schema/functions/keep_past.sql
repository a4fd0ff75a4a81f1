-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.keep_past_minilm_l6_v2(p_tenant uuid, p_changed uuid[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO past_minilm_l6_v2 (tenant_id, user_pk, memory_id, since, until, category, today, state, expires_at,
            embedding, tokens, tsv)
        SELECT p_tenant, m.user_pk, m.id,
               coalesce((SELECT p.until FROM past_minilm_l6_v2 p WHERE p.tenant_id = p_tenant AND p.memory_id = m.id
                         ORDER BY p.until DESC LIMIT 1),
                        (SELECT h.ts FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text
                         ORDER BY h.ts LIMIT 1)),
               n.ts, b.image->>'category', m.category, b.image->>'state', (b.image->>'expires_at')::timestamptz,
               v.embedding, v.tokens, words_of(former_memory(m, b.image))
        FROM unnest(p_changed) c(id)
        CROSS JOIN LATERAL (SELECT * FROM memories x WHERE x.tenant_id = p_tenant AND x.id = c.id
                            AND x.type <> 'chunk' OFFSET 0) m
        CROSS JOIN LATERAL (SELECT h.ts FROM history h WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text
                            ORDER BY h.ts DESC, h.id DESC LIMIT 1) n
        CROSS JOIN LATERAL (SELECT h.meta->'after' AS image FROM history h
                            WHERE h.tenant_id = p_tenant AND h.memory_id = m.id::text AND h.meta ? 'after'
                              AND h.stamp <> transaction_stamp() ORDER BY h.ts DESC, h.id DESC LIMIT 1) b
        LEFT JOIN vec_minilm_l6_v2 v ON v.tenant_id = p_tenant AND v.memory_id = m.id
        WHERE (b.image->>'text', b.image->>'steps_text', b.image->>'category', b.image->>'state',
               (b.image->>'expires_at')::timestamptz)
              IS DISTINCT FROM (m.text, m.steps_text, m.category, m.state, m.expires_at)
        ON CONFLICT DO NOTHING;
    UPDATE past_minilm_l6_v2 p SET today = m.category FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND p.tenant_id = p_tenant AND p.memory_id = m.id
          AND p.today <> m.category;
END $function$;
COMMENT ON FUNCTION keep_past_minilm_l6_v2(uuid,uuid[]) IS 'Keep how memories were before this transaction, as far as a search compares them: with the vector and the words of
the former text. It reads the vectors, so it comes before they are replaced. A memory that moves to another category
takes its past along. Chunks have no past.';
