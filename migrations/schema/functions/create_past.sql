CREATE OR REPLACE FUNCTION public.create_past(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_tenant record;
BEGIN
    EXECUTE format('CREATE TABLE %I (
        tenant_id uuid NOT NULL, user_pk bigint NOT NULL, memory_id uuid NOT NULL, since timestamptz NOT NULL,
        until timestamptz NOT NULL, category text NOT NULL, today text NOT NULL, state text NOT NULL,
        expires_at timestamptz, embedding halfvec(%s), tokens bytea STORAGE EXTERNAL, tsv tsvector NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, until),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE
    )', 'past_' || p_name,
        (SELECT dimension FROM embedding_spaces WHERE name = p_name));
    EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk, until, since) INCLUDE (memory_id)',
        'past_' || p_name);
    PERFORM plan_for_largest_tenant(format('%I', 'past_' || p_name)::regclass);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', 'past_' || p_name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', 'past_' || p_name);
    EXECUTE format($p$CREATE POLICY tenant ON %I
        USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
        WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, 'past_' || p_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mnema_app', 'past_' || p_name);
    EXECUTE fill_places($ddl$
-- Keep how memories were before this transaction, as far as a search compares them: with the vector and the words of
-- the former text. It reads the vectors, so it comes before they are replaced. A memory that moves to another category
-- takes its past along. Chunks have no past.
CREATE OR REPLACE FUNCTION keep_past_{space}(p_tenant uuid, p_changed uuid[]) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    INSERT INTO past_{space} (tenant_id, user_pk, memory_id, since, until, category, today, state, expires_at,
            embedding, tokens, tsv)
        SELECT p_tenant, m.user_pk, m.id,
               coalesce((SELECT p.until FROM past_{space} p WHERE p.tenant_id = p_tenant AND p.memory_id = m.id
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
        LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id
        WHERE (b.image->>'text', b.image->>'steps_text', b.image->>'category', b.image->>'state',
               (b.image->>'expires_at')::timestamptz)
              IS DISTINCT FROM (m.text, m.steps_text, m.category, m.state, m.expires_at)
        ON CONFLICT DO NOTHING;
    UPDATE past_{space} p SET today = m.category FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND p.tenant_id = p_tenant AND p.memory_id = m.id
          AND p.today <> m.category;
END $fn$;
GRANT EXECUTE ON FUNCTION keep_past_{space} TO mnema_app;

COMMENT ON FUNCTION keep_past_{space} IS 'Keep how memories were before this transaction, as far as a search compares them: with the vector and the words of
the former text. It reads the vectors, so it comes before they are replaced. A memory that moves to another category
takes its past along. Chunks have no past.';
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
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

COMMENT ON FUNCTION fill_past_{space} IS 'Fill the past of the next p_limit memories of a tenant (NULL: of all) from its history, for the times before the
table. The vector of a text that is gone is gone too: such a memory is found by its words. What was kept since the
table is there has its vector already, and learns only since when it was so. Return the number of memories that were
read; with fewer than p_limit the tenant''s past is complete. Each call goes on behind the last one.';
    $ddl$, jsonb_build_object('space', p_name));
    PERFORM create_recall_at(p_name);
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP  -- row-level security binds the owner too
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        INSERT INTO history_fills (tenant_id, space) VALUES (v_tenant.id, p_name)
            -- a space of this name was dropped before
            ON CONFLICT (tenant_id, space) DO UPDATE SET began = now(), after_id = NULL;
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $function$;
COMMENT ON FUNCTION create_past(text) IS 'Make past_<space> with its functions; it is filled later. Each row is one memory as a search compared it from `since`
until `until`. `today` is the category that it has now: a key must see both.';
