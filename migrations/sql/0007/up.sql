-- Questions in time: the memories of a user as the history had them at a time.

-- Return the words by which a memory is found, also of a memory that is made of an image: the expression of the column
-- tsv, for all but chunks.
CREATE FUNCTION words_of(r memories) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_tsvector('english', searched_text(coalesce(r.actor_id, '') || ' ' || r.text || ' '
                                                || coalesce(r.steps_text, '')));
GRANT EXECUTE ON FUNCTION words_of(memories) TO mnema_app;

-- Return a memory with the fields of an image that history has of it. An image of before a column was added has none of
-- that column. The columns that no image has are those of today: tsv, text_hash, stored_at, fact_topic.
CREATE FUNCTION former_memory(m memories, p_image jsonb) RETURNS memories LANGUAGE sql STABLE
    RETURN jsonb_populate_record(m, '{"expires_at": null, "language": null, "valid_from": null, "valid_to": null}'
                                    || p_image);
GRANT EXECUTE ON FUNCTION former_memory(memories, jsonb) TO mnema_app;

-- Return a memory as it was at a time: as it is, if nothing changed it since, else by its last image before. No row if
-- it was not stored yet. History has no images of what was purged or erased.
CREATE FUNCTION memory_at(m memories, p_as_of timestamptz) RETURNS SETOF memories LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT m.* WHERE NOT EXISTS (SELECT FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
                                 AND h.ts > p_as_of AND h.meta ? 'after')
    UNION ALL
    SELECT w.* FROM (
        SELECT h.meta->'after' AS image FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
            AND h.ts <= p_as_of AND h.meta ? 'after' ORDER BY h.ts DESC, h.id DESC LIMIT 1) l
    CROSS JOIN LATERAL former_memory(m, l.image) w
    WHERE EXISTS (SELECT FROM history h WHERE h.tenant_id = m.tenant_id AND h.memory_id = m.id::text
                  AND h.ts > p_as_of AND h.meta ? 'after')
$$;
GRANT EXECUTE ON FUNCTION memory_at(memories, timestamptz) TO mnema_app;

-- Return the memories of a user as they were at a time, in any state.
CREATE FUNCTION memories_at(p_tenant uuid, p_user_pk bigint, p_as_of timestamptz) RETURNS SETOF memories
    LANGUAGE sql STABLE AS $$
    SELECT w.* FROM memories m CROSS JOIN LATERAL memory_at(m, p_as_of) w
    WHERE m.tenant_id = p_tenant AND m.user_pk = p_user_pk
$$;
GRANT EXECUTE ON FUNCTION memories_at(uuid, bigint, timestamptz) TO mnema_app;

-- Return whether a memory, as it was at p_as_of, answers a question: it was active and not past its expires_at. About
-- what was so at p_valid_at (NULL: no such question) a superseded one answers too, if its span covers that time.
CREATE FUNCTION answers_at(m memories, p_as_of timestamptz, p_valid_at timestamptz) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN (m.state = 'active' OR (m.state = 'superseded' AND p_valid_at IS NOT NULL))
        AND coalesce(m.expires_at > least(p_as_of, now()), true)
        AND (p_valid_at IS NULL
             OR (coalesce(m.valid_from <= p_valid_at, true) AND coalesce(m.valid_to > p_valid_at, true)));
GRANT EXECUTE ON FUNCTION answers_at(memories, timestamptz, timestamptz) TO mnema_app;

-- It also holds when a memory was stored, for questions about times before.
DROP INDEX memories_filtered;
CREATE INDEX memories_filtered ON memories (tenant_id, user_pk)
    INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance,
             updated_at, stored_at)
    WHERE state = 'active' AND type <> 'chunk';

-- Return the ids of a list as list_memories does, of a user's memories as they were at p_as_of. p_seen: the categories
-- that a memory may have today (NULL: any). With p_valid_at, the state `active` stands for superseded ones too.
CREATE FUNCTION list_memories_at(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb,
    p_list jsonb, p_limit int, p_as_of timestamptz, p_valid_at timestamptz, p_seen text[])
    RETURNS SETOF memories LANGUAGE plpgsql STABLE ROWS 50 AS $$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
    v_metadata text;
    v_row text;
    v_after text;
    v_order text;
BEGIN
    SELECT string_agg(format('AND (m.metadata @> ($9->%1$s->0) OR m.metadata @> ($9->%1$s->1))', n - 1), ' ')
        INTO v_metadata
        FROM generate_series(1, jsonb_array_length(p_list->'metadata')) n;
    SELECT string_agg(format('m.%I', c), ', ' ORDER BY place),
           string_agg(format('($10->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
               CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                   ORDER BY place),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO v_row, v_after, v_order FROM unnest(v_columns) WITH ORDINALITY u(c, place);
    RETURN QUERY EXECUTE format($list$
        SELECT m.* FROM memories_at($1, $4, $12) m JOIN memories t ON t.tenant_id = $1 AND t.id = m.id
        WHERE ($3 IS NULL OR words_of(m) @@ $3) AND ($5 IS NULL OR m.category = ANY ($5))
          AND ($14 IS NULL OR t.category = ANY ($14)) AND memory_matches(m, $6)
          AND CASE $2 WHEN 'active' THEN answers_at(m, $12, $13) ELSE m.state = $2 END
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz, (p_list->>'created_before')::timestamptz, p_list->'metadata',
            p_list, p_limit, p_as_of, p_valid_at, p_seen;
END $$;
GRANT EXECUTE ON FUNCTION list_memories_at TO mnema_app;
GRANT EXECUTE ON FUNCTION parse_words(text) TO mnema_app;

-- Return the memories of an answer in time: at most p_whole_limit of the categories p_whole, and the chosen ones, as
-- they were. `place` orders each part. The other arguments are those of recall_at_<space>.
CREATE FUNCTION read_answer_at(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[],
    p_whole_limit int, p_chosen uuid[], p_as_of timestamptz, p_valid_at timestamptz, p_today text[])
    RETURNS TABLE (part text, place bigint, memory memories)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_at timestamptz := coalesce(p_as_of, 'infinity');
    v_user bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := coalesce(user_pk_of(p_tenant, p_user), -1);
    IF p_whole <> '{}' THEN
        RETURN QUERY SELECT 'whole', row_number() OVER (ORDER BY w.pinned DESC, w.importance DESC, w.updated_at DESC,
                w.id) AS place, w::memories
            FROM memories_at(p_tenant, v_user, v_at) w JOIN memories m ON m.tenant_id = p_tenant AND m.id = w.id
            WHERE w.type <> 'chunk' AND w.category = ANY (p_whole) AND (p_today IS NULL OR m.category = ANY (p_today))
              AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters)
            ORDER BY place LIMIT p_whole_limit;
    END IF;
    RETURN QUERY SELECT 'chosen', c.place, w::memories
        FROM unnest(p_chosen) WITH ORDINALITY c(id, place)
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = c.id AND m.user_pk = v_user
        CROSS JOIN LATERAL memory_at(m, v_at) w
        WHERE w.category = ANY (p_categories) AND (p_today IS NULL OR m.category = ANY (p_today))
          AND answers_at(w, v_at, p_valid_at) AND memory_matches(w, p_filters)
        ORDER BY c.place;
END $$;
GRANT EXECUTE ON FUNCTION read_answer_at TO mnema_app;

-- The tenants whose past of before a space's table is not filled from history yet. The job `embed` fills it in parts,
-- in the order of ids: up to `after_id`. Until then no question about a time before `began` is ranked.
CREATE TABLE history_fills (
    tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    space     text NOT NULL,
    began     timestamptz NOT NULL DEFAULT now(),
    after_id  uuid,
    PRIMARY KEY (tenant_id, space)
);
ALTER TABLE history_fills ENABLE ROW LEVEL SECURITY;
ALTER TABLE history_fills FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON history_fills
    USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON history_fills TO mnema_app;
SELECT plan_for_largest_tenant('history_fills');

-- Return whether the past of a tenant is filled as far as p_as_of.
CREATE FUNCTION past_is_filled(p_tenant uuid, p_space text, p_as_of timestamptz) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN NOT EXISTS (SELECT FROM history_fills f
                       WHERE f.tenant_id = p_tenant AND f.space = p_space AND f.began > p_as_of);
END $$;
GRANT EXECUTE ON FUNCTION past_is_filled TO mnema_app;

-- Make past_<space> with its functions; it is filled later. Each row is one memory as a search compared it from `since`
-- until `until`. `today` is the category that it has now: a key must see both.
CREATE FUNCTION create_past(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
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
{{spaces/keep_past.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{spaces/fill_past.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{spaces/recall_at.sql}}
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
END $space$;

-- Make the functions of a space that store vectors: put_vectors_<space>, which names all other spaces,
-- fill_vectors_<space> and index_vectors_<space>.
CREATE OR REPLACE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_places jsonb := jsonb_build_object('space', p_name, 'change_other_spaces', (
        SELECT coalesce(string_agg(fill_places($other$
    PERFORM keep_past_{other}(p_tenant, p_changed);
    DELETE FROM vec_{other} WHERE tenant_id = p_tenant
        AND (memory_id = ANY (p_ids) AND memory_id = ANY (p_changed) OR memory_id = ANY (p_stale));
    UPDATE vec_{other} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$other$,
            jsonb_build_object('other', name)), ''), '')
        FROM embedding_spaces WHERE name <> p_name));
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/put_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/fill_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/index_vectors.sql}}
    $ddl$, v_places);
END $space$;

-- Make a space: its tables and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_past(p_name);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name), price_recall(p_name);
END $$;

-- Drop what add_embedding_space made. The lock comes first, in the order in which writers take theirs.
CREATE OR REPLACE FUNCTION drop_embedding_space(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_part text;
BEGIN
    LOCK TABLE memories IN ACCESS EXCLUSIVE MODE;
    DELETE FROM embedding_spaces WHERE name = p_name AND NOT active;
    IF NOT FOUND THEN RAISE EXCEPTION 'no embedding space % that is not active', p_name; END IF;
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- without the dropped space
    FOREACH v_part IN ARRAY ARRAY['neighbours', 'put_vectors', 'fill_vectors', 'index_vectors', 'record_changes',
        'apply_changes', 'near', 'recall', 'near_chunks', 'find_chunks', 'keep_past', 'fill_past',
        'recall_at'] LOOP
        EXECUTE format('DROP FUNCTION %I', v_part || '_' || p_name);
    END LOOP;
    EXECUTE format('DROP TABLE %I, %I', 'vec_' || p_name, 'past_' || p_name);
END $$;

SELECT create_past(name) FROM embedding_spaces;
SELECT create_put_vectors(name) FROM embedding_spaces;

-- A receipt tells the times that its question was about.
ALTER TABLE receipts ADD COLUMN as_of timestamptz, ADD COLUMN valid_at timestamptz;

-- Store a batch of receipts [{id, age, via, agent, …}] and their items [{receipt_id, place, …}], and count them.
-- Storing a receipt again changes nothing. `age` is in seconds, because clocks of two machines are not compared.
--
-- A receipt keeps its user, its thread and an item only if the user was stored before the query and still is: the user
-- may have been erased since, and stored anew. The thread of a query of all users stays only if a memory has it. An
-- item says whose it is by user_id, a bullet of a header by user_pk.
CREATE OR REPLACE FUNCTION record_receipts(p_tenant uuid, p_receipts jsonb, p_items jsonb) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_users text[] := ARRAY (
        SELECT r->>'user_id' FROM jsonb_array_elements(p_receipts) r UNION SELECT i->>'user_id'
            FROM jsonb_array_elements(p_items) i);
    v_pks bigint[] := ARRAY (SELECT DISTINCT (i->>'user_pk')::bigint FROM jsonb_array_elements(p_items) i);
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    -- An erasure and this function wait for each other. Both lock users before threads.
    PERFORM FROM users WHERE tenant_id = p_tenant AND (user_id = ANY (v_users) OR user_pk = ANY (v_pks))
        ORDER BY user_id FOR KEY SHARE;
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id IN (
        SELECT r->>'thread_id' FROM jsonb_array_elements(p_receipts) r) ORDER BY thread_id FOR KEY SHARE;
    WITH known AS MATERIALIZED (
        SELECT user_id, user_pk, created_at FROM users
        WHERE tenant_id = p_tenant AND (user_id = ANY (v_users) OR user_pk = ANY (v_pks))),
    given AS MATERIALIZED (
        SELECT r.*, v_now - make_interval(secs => r.age) AS ts
        FROM jsonb_to_recordset(p_receipts) AS r(id uuid, age double precision, via text, agent text, key_id uuid,
            user_id text,
             thread_id text, header_from bigint, header_to bigint, tokens int, relevance real, degraded text,
             as_of timestamptz, valid_at timestamptz)),
    new AS (
        INSERT INTO receipts (tenant_id, id, ts, via, agent, key_id, user_id, thread_id, header_from, header_to, tokens,
                              relevance, degraded, as_of, valid_at)
        SELECT p_tenant, g.id, g.ts, g.via, g.agent, g.key_id, k.user_id, CASE WHEN CASE
                   WHEN g.user_id IS NOT NULL THEN k.user_id IS NOT NULL
                   ELSE EXISTS (SELECT FROM thread_revision t WHERE t.tenant_id = p_tenant
                       AND t.thread_id = g.thread_id)
               END THEN g.thread_id END, g.header_from, g.header_to, g.tokens, g.relevance, g.degraded,
               g.as_of, g.valid_at
        FROM given g LEFT JOIN known k ON k.user_id = g.user_id AND k.created_at <= g.ts
        ON CONFLICT DO NOTHING RETURNING id, ts, user_id, tokens),
    told AS (
        INSERT INTO receipt_items (tenant_id, receipt_id, place, part, memory_id, category, version, relevance, bullet)
        SELECT p_tenant, n.id, i.place, i.part, i.memory_id, i.category, i.version, i.relevance, i.bullet
        FROM jsonb_to_recordset(p_items) AS i(receipt_id uuid, place smallint, part text, memory_id uuid, user_id text,
             user_pk bigint, category text, version int, relevance real, bullet jsonb)
        JOIN new n ON n.id = i.receipt_id
        LEFT JOIN known k ON k.user_id = i.user_id AND k.created_at <= n.ts LEFT JOIN known b ON b.user_pk = i.user_pk
        WHERE coalesce(k.user_pk, b.user_pk) IS NOT NULL),
    counted AS (
        INSERT INTO usage_days AS d (tenant_id, day, user_id, queries, tokens)
        SELECT p_tenant, (n.ts AT TIME ZONE 'UTC')::date, coalesce(n.user_id, ''), count(*), coalesce(sum(n.tokens), 0)
        FROM new n GROUP BY 2, 3 ORDER BY 2, 3
        ON CONFLICT (tenant_id, day, user_id)
            DO UPDATE SET queries = d.queries + excluded.queries, tokens = d.tokens + excluded.tokens)
    SELECT count(*) INTO v_count FROM new;
    RETURN v_count;
END $$;
