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
    EXECUTE fill_places($ddl$
-- Return the candidates of a question in time: what recall_<space> returns, of one user's memories as they were at
-- p_as_of (NULL: as they are). With p_valid_at, also superseded memories, and only those whose span covers it.
-- p_categories: of a memory as it was, p_today: those it may have now (NULL: any). It compares all memories that the
-- user had, chunks apart; relations count for nothing, because they have no history. Without filters it reads the
-- memories that are as they were from the indexes, and the others from past_<space>.
CREATE OR REPLACE FUNCTION recall_at_{space}(
    p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_query text, p_vector halfvec,
    p_dense int, p_lexical int, p_beside int, p_tokens boolean, p_vectors boolean,
    p_as_of timestamptz, p_valid_at timestamptz, p_today text[])
    RETURNS TABLE (id uuid[], category text[], type text[], importance smallint[], pinned boolean[],
        created_at timestamptz[],
        updated_at timestamptz[], thread_id text[], seq bigint[], actor_id text[], asks boolean[],
        assistant boolean[], orders boolean[], similarity float8[],
        lexical real[], strength real[], lengths int[], tokens bytea, embeddings halfvec[], text_hashes bytea[])
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET random_page_cost = 1.1 AS $fn$
#variable_conflict use_column
DECLARE
    v_at timestamptz := coalesce(p_as_of, 'infinity');
    v_expired timestamptz := least(v_at, now());
    v_words tsquery := any_word(p_query);
    v_user bigint;
    v_now text[];  -- the categories that a memory may have today
    v_gone uuid[];  -- memories that are not as they were
    v_same uuid[];  -- answering memories that are as they were
    v_far float8[];
    v_ids uuid[];  -- all matching memories, if they are needed
    v_dense uuid[] := '{}';
    v_found uuid[];
    v_ranks real[];
    v_beside uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := coalesce(user_pk_of(p_tenant, p_user), -1);
    v_now := ARRAY(SELECT c FROM unnest(p_categories) c WHERE p_today IS NULL OR c = ANY (p_today));
    IF p_filters IS NULL AND p_valid_at IS NULL THEN
        v_gone := ARRAY(SELECT p.memory_id FROM past_{space} p
            WHERE p.tenant_id = p_tenant AND p.user_pk = v_user AND p.until > v_at
            UNION ALL
            SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = v_user AND m.state = 'active'
                AND m.expires_at <= v_expired);
        v_same := ARRAY(SELECT m.id FROM memories m
            WHERE m.tenant_id = p_tenant AND m.user_pk = v_user AND m.state = 'active' AND m.type <> 'chunk'
              AND m.category = ANY (v_now) AND m.stored_at <= v_at
              AND NOT EXISTS (SELECT FROM unnest(v_gone) g(id) WHERE g.id = m.id));
        IF v_same <> '{}' AND p_vector IS NOT NULL AND p_dense > 0 THEN
            SELECT array_agg(x.memory_id), array_agg(x.far) INTO v_dense, v_far FROM (
                SELECT v.memory_id, v.far FROM (
                    SELECT v.memory_id, (v.embedding <=> p_vector) + 0 AS far FROM vec_{space} v
                    WHERE v.tenant_id = p_tenant AND v.user_pk = v_user AND v.state = 'active' AND v.type <> 'chunk'
                      AND v.category = ANY (v_now) OFFSET 0) v  -- by the index that covers it, not row by row
                WHERE EXISTS (SELECT FROM unnest(v_same) s(id) WHERE s.id = v.memory_id)
                ORDER BY v.far, v.memory_id LIMIT p_dense) x;
        END IF;
        IF v_same <> '{}' AND p_lexical > 0 THEN
            SELECT array_agg(s.memory_id), array_agg(s.rank) INTO v_found, v_ranks
                FROM search_lexical(v_user, p_query, v_now, NULL, p_lexical + cardinality(v_gone)) s
                WHERE EXISTS (SELECT FROM unnest(v_same) u(id) WHERE u.id = s.memory_id);
        END IF;
        WITH former AS MATERIALIZED (
            SELECT p.memory_id AS id, p.embedding <=> p_vector AS far,
                   CASE WHEN p.tsv @@ v_words THEN ts_rank(p.tsv, v_words) END AS rank
            FROM past_{space} p
            WHERE p.tenant_id = p_tenant AND p.user_pk = v_user AND p.until > v_at AND p.since <= v_at
              AND p.state = 'active' AND p.category = ANY (p_categories)
              AND (p_today IS NULL OR p.today = ANY (p_today))
              AND (p.expires_at IS NULL OR p.expires_at > v_expired))
        SELECT ARRAY(SELECT d.id FROM (SELECT f.id, f.far FROM former f WHERE f.far IS NOT NULL
                                       UNION ALL SELECT * FROM unnest(v_dense, v_far)) d
                     ORDER BY d.far, d.id LIMIT p_dense),
               l.ids, l.ranks INTO v_dense, v_found, v_ranks
        FROM (SELECT array_agg(w.id) AS ids, array_agg(w.rank) AS ranks FROM (
                  SELECT * FROM (SELECT f.id, f.rank FROM former f WHERE f.rank IS NOT NULL
                                 UNION ALL SELECT * FROM unnest(v_found, v_ranks)) u
                  ORDER BY u.rank DESC, u.id LIMIT p_lexical) w) l;
    END IF;
    IF p_filters IS NOT NULL OR p_valid_at IS NOT NULL OR cardinality(v_dense) < p_dense THEN
        v_ids := ARRAY(SELECT w.id FROM memories_at(p_tenant, v_user, v_at) w
            JOIN memories m ON m.tenant_id = p_tenant AND m.id = w.id
            WHERE w.type <> 'chunk' AND w.category = ANY (p_categories)
              AND (p_today IS NULL OR m.category = ANY (p_today))
              AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters));
    END IF;
    IF p_filters IS NOT NULL OR p_valid_at IS NOT NULL THEN
        IF p_vector IS NOT NULL AND p_dense > 0 THEN
            v_dense := ARRAY(SELECT f.id FROM unnest(v_ids) f(id) {vector_then}
                WHERE y.embedding IS NOT NULL ORDER BY y.embedding <=> p_vector, f.id LIMIT p_dense);
        END IF;
        IF p_lexical > 0 THEN
            SELECT array_agg(l.id), array_agg(l.rank) INTO v_found, v_ranks FROM (
                SELECT f.id, ts_rank(y.tsv, v_words) AS rank FROM unnest(v_ids) f(id) {words_then}
                WHERE y.tsv @@ v_words ORDER BY rank DESC, f.id LIMIT p_lexical) l;
        END IF;
    END IF;
    IF cardinality(v_dense) < p_dense AND NOT coalesce(p_filters ? 'embedded', false) THEN  -- without a vector
        v_dense := v_dense || ARRAY(SELECT m.id FROM unnest(v_ids) f(id)
            JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
            WHERE f.id <> ALL (v_dense)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_dense - cardinality(v_dense));
    END IF;
    IF p_beside > 0 THEN
        v_beside := ARRAY(SELECT n.id FROM memories b CROSS JOIN LATERAL (
            SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.thread_id = b.thread_id
                AND m.seq IN (b.seq - 1, b.seq + 1) AND m.user_pk = v_user AND m.type <> 'chunk' OFFSET 0) n
            WHERE b.tenant_id = p_tenant AND b.id = ANY (v_dense[:p_beside] || v_found[:p_beside])
                AND b.seq IS NOT NULL);
    END IF;
    RETURN QUERY SELECT array_agg(c.id), array_agg(c.category), array_agg(c.type), array_agg(c.importance),
        array_agg(c.pinned),
        array_agg(c.created_at), array_agg(c.updated_at), array_agg(c.thread_id), array_agg(c.seq),
            array_agg(c.actor_id),
        array_agg(c.asks), array_agg(c.assistant), array_agg(c.orders), array_agg(c.similarity), array_agg(c.rank),
        array_agg(NULL::real), array_agg(length(c.tokens)),
        string_agg(c.tokens, ''), CASE WHEN p_vectors THEN array_agg(c.embedding) END,
        CASE WHEN p_vectors THEN array_agg(c.text_hash) END
    FROM (
        SELECT w.id, w.category, w.type, w.importance, w.pinned, w.created_at, w.updated_at, w.thread_id,
               w.seq, w.actor_id,
               w.text LIKE '%?' OR w.text LIKE '%？' OR w.text LIKE '%؟' AS asks,
               coalesce(w.role = 'assistant', false) AS assistant,
               w.role IS DISTINCT FROM 'assistant' AND opens_with_order(w.text) AS orders,
               1 - (y.embedding <=> p_vector) AS similarity, l.rank,
               CASE WHEN p_tokens THEN y.tokens END AS tokens, CASE WHEN p_vectors THEN y.embedding END AS embedding,
               CASE WHEN p_vectors THEN CASE WHEN w.text = m.text THEN m.text_hash
                                             ELSE sha256(convert_to(w.text, 'UTF8')) END END AS text_hash
        FROM (SELECT unnest(v_dense) AS id UNION SELECT unnest(v_found) UNION SELECT unnest(v_beside)) f
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
        CROSS JOIN LATERAL memory_at(m, v_at) w
        {vector_then}
        LEFT JOIN unnest(v_found, v_ranks) AS l(id, rank) ON l.id = f.id
        WHERE w.category = ANY (p_categories) AND (p_today IS NULL OR m.category = ANY (p_today))
          AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters)
        ORDER BY f.id) c;
END $fn$;
GRANT EXECUTE ON FUNCTION recall_at_{space} TO mnema_app;

COMMENT ON FUNCTION recall_at_{space} IS 'Return the candidates of a question in time: what recall_<space> returns, of one user''s memories as they were at
p_as_of (NULL: as they are). With p_valid_at, also superseded memories, and only those whose span covers it.
p_categories: of a memory as it was, p_today: those it may have now (NULL: any). It compares all memories that the
user had, chunks apart; relations count for nothing, because they have no history. Without filters it reads the
memories that are as they were from the indexes, and the others from past_<space>.';
    $ddl$, jsonb_build_object(
        'vector_then', $then$CROSS JOIN LATERAL (
                SELECT CASE WHEN p.until IS NULL THEN v.embedding ELSE p.embedding END AS embedding,
                       CASE WHEN p.until IS NULL THEN v.tokens ELSE p.tokens END AS tokens
                FROM (SELECT) one
                LEFT JOIN past_{space} p ON p.tenant_id = p_tenant AND p.memory_id = f.id AND p.until > v_at
                    AND p.since <= v_at
                LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id) y$then$,
        'words_then', $then$JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
            CROSS JOIN LATERAL (SELECT coalesce((SELECT p.tsv FROM past_{space} p WHERE p.tenant_id = p_tenant
                AND p.memory_id = f.id AND p.until > v_at AND p.since <= v_at), m.tsv) AS tsv) y$then$,
        'space', p_name));
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
