-- Times before are no longer asked for; the history stays.
-- Make the functions of a space that store vectors: put_vectors_<space>, which names all other spaces,
-- fill_vectors_<space> and index_vectors_<space>.
CREATE OR REPLACE FUNCTION create_put_vectors(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_places jsonb := jsonb_build_object('space', p_name, 'change_other_spaces', (
        SELECT coalesce(string_agg(fill_places($other$
    DELETE FROM vec_{other} WHERE tenant_id = p_tenant
        AND (memory_id = ANY (p_ids) AND memory_id = ANY (p_changed) OR memory_id = ANY (p_stale));
    UPDATE vec_{other} v SET category = m.category, state = m.state, indexed = false FROM memories m
        WHERE m.tenant_id = p_tenant AND m.id = ANY (p_changed) AND v.tenant_id = p_tenant AND v.memory_id = m.id
          AND (v.category, v.state) IS DISTINCT FROM (m.category, m.state);$other$,
            jsonb_build_object('other', name)), ''), '')
        FROM embedding_spaces WHERE name <> p_name));
BEGIN
    EXECUTE fill_places($ddl$
{{../0001/spaces/put_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/fill_vectors.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/index_vectors.sql}}
    $ddl$, v_places);
END $space$;

-- Make a space: its table and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
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
        'apply_changes',
                                  'near', 'recall', 'near_chunks', 'find_chunks'] LOOP
        EXECUTE format('DROP FUNCTION %I', v_part || '_' || p_name);
    END LOOP;
    EXECUTE format('DROP TABLE %I', 'vec_' || p_name);
END $$;

SELECT create_put_vectors(name) FROM embedding_spaces;

DO $do$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I, %I, %I',
            'keep_past_' || v_space.name, 'fill_past_' || v_space.name, 'recall_at_' || v_space.name);
        EXECUTE format('DROP TABLE %I', 'past_' || v_space.name);
    END LOOP;
END $do$;

DROP FUNCTION create_past(text);
DROP FUNCTION read_answer_at;
DROP FUNCTION list_memories_at;
REVOKE EXECUTE ON FUNCTION parse_words(text) FROM mnema_app;
DROP FUNCTION answers_at(memories, timestamptz, timestamptz);
DROP FUNCTION memories_at(uuid, bigint, timestamptz);
DROP FUNCTION memory_at(memories, timestamptz);
DROP FUNCTION former_memory(memories, jsonb);
DROP FUNCTION words_of(memories);

DROP INDEX memories_filtered;
CREATE INDEX memories_filtered ON memories (tenant_id, user_pk)
    INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance, updated_at)
    WHERE state = 'active' AND type <> 'chunk';

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
             thread_id text, header_from bigint, header_to bigint, tokens int, relevance real, degraded text)),
    new AS (
        INSERT INTO receipts (tenant_id, id, ts, via, agent, key_id, user_id, thread_id, header_from, header_to, tokens,
                              relevance, degraded)
        SELECT p_tenant, g.id, g.ts, g.via, g.agent, g.key_id, k.user_id, CASE WHEN CASE
                   WHEN g.user_id IS NOT NULL THEN k.user_id IS NOT NULL
                   ELSE EXISTS (SELECT FROM thread_revision t WHERE t.tenant_id = p_tenant
                       AND t.thread_id = g.thread_id)
               END THEN g.thread_id END, g.header_from, g.header_to, g.tokens, g.relevance, g.degraded
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

DROP FUNCTION past_is_filled;
DROP TABLE history_fills;
ALTER TABLE receipts DROP COLUMN as_of, DROP COLUMN valid_at;
