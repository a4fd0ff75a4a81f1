-- Writing: one call carries every change of a use-case together with its history, revisions, delta, events, relations,
-- jobs and idempotency records, in one round trip and one transaction. Each table is written once, in one statement for
-- all changes.
--
-- p_batch, every key but `history` and `events` left out when empty:
--   users     [the users of new memories]
--   threads   {thread_id: how many revisions it gets}
--   updates   [{op: update|purge, id, set, expect_version?, expect_states?}], applied in order and before the inserts
--   memories  [a new row]
--   history   [{id, memory_id, event, old_ref, new_ref, actor, meta}]
--   delta     [{id, memory_id, thread_id, back: revisions of this thread after it, event, meta}]
--   events    [{id, …}]
--   edges     [{id, memory_id: the changed memory, link_id, actor, from_id, to_id, category, strength}]
--   jobs      [{id, kind, user_id, payload}]
-- p_vectors belong to p_vector_ids, p_tombstones are hashes that must not have been erased, p_keys the idempotency
-- records [{key_id, route, key, body_hash, memory_id, response}].
-- Answer: {replay, same_body} when the one key was used before, else {revs: [[memory_id, thread_id, rev]],
-- rows: {memory_id: the row after its update}, related: {memory_id: relations made}}.
-- Errors: MN404 not visible, MN412 version, MN409 state, MN410 erased, MN425 one of several keys was used before.

-- A memory as history keeps it and as the application reads it: without the text index and the internal user key.
CREATE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'seq', r.seq,
        'agent_id', r.agent_id, 'run_id', r.run_id, 'actor_id', r.actor_id, 'role', r.role, 'type', r.type,
        'category', r.category, 'text', r.text, 'steps_text', r.steps_text, 'importance', r.importance,
        'pinned', r.pinned, 'tags', r.tags, 'state', r.state, 'source', r.source, 'metadata', r.metadata,
        'superseded_by', r.superseded_by, 'purge_at', r.purge_at, 'version', r.version, 'created_at', r.created_at,
        'updated_at', r.updated_at);

-- New users, sorted, so that two transactions never wait for each other.
CREATE FUNCTION know_users(p_tenant uuid, p_users jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(p_users) u WHERE user_pk_of(p_tenant, u) IS NULL) THEN
        INSERT INTO users (tenant_id, user_id) SELECT p_tenant, u FROM jsonb_array_elements_text(p_users) u ORDER BY u
            ON CONFLICT DO NOTHING;
    END IF;
END $$;

CREATE FUNCTION update_memory(p_old memories, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories := jsonb_populate_record(p_old, p_change->'set');
BEGIN
    UPDATE memories m SET text = r.text, steps_text = r.steps_text, text_hash = r.text_hash, category = r.category,
            importance = r.importance, pinned = r.pinned, tags = r.tags, state = r.state, source = r.source,
            metadata = r.metadata, superseded_by = r.superseded_by, purge_at = r.purge_at,
            version = m.version + 1, created_at = r.created_at, updated_at = r.updated_at
        WHERE m.tenant_id = p_old.tenant_id AND m.id = p_old.id RETURNING * INTO r;
    RETURN r;
END $$;

-- The row as it was, locked; raises when it is not there, not in an expected state or not at the expected version.
CREATE FUNCTION locked_memory(p_tenant uuid, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories;
BEGIN
    SELECT * INTO r FROM memories WHERE tenant_id = p_tenant AND id = (p_change->>'id')::uuid FOR UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION 'no such memory' USING ERRCODE = 'MN404'; END IF;
    IF NOT (coalesce(p_change->'expect_states', jsonb_build_array(r.state)) ? r.state) THEN
        RAISE EXCEPTION 'memory is %', r.state USING ERRCODE = 'MN409';
    END IF;
    IF r.version <> coalesce((p_change->>'expect_version')::int, r.version) THEN
        RAISE EXCEPTION 'memory is at version %', r.version USING ERRCODE = 'MN412';
    END IF;
    RETURN r;
END $$;

-- Purge leaves no text behind: not in the row, not in older history, not in the delta.
CREATE FUNCTION purge_memory(r memories) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM relations WHERE tenant_id = r.tenant_id AND (from_id = r.id::text OR to_id = r.id::text);
    UPDATE history SET meta = '{}' WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    DELETE FROM memories WHERE tenant_id = r.tenant_id AND id = r.id;
END $$;

-- Updates and purges, one after the other. Answers {memory_id: {before, after}}; of a purged one only the category.
CREATE FUNCTION change_memories(p_tenant uuid, p_updates jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_images jsonb := '{}';
    v_old memories;
    c jsonb;
BEGIN
    FOR c IN SELECT value FROM jsonb_array_elements(p_updates) LOOP
        v_old := locked_memory(p_tenant, c);
        IF c->>'op' = 'purge' THEN
            PERFORM purge_memory(v_old);
            v_images := v_images || jsonb_build_object(v_old.id,
                jsonb_build_object('before', jsonb_build_object('category', v_old.category)));
        ELSE
            v_images := v_images || jsonb_build_object(v_old.id, jsonb_build_object(
                'before', memory_json(v_old), 'after', memory_json(update_memory(v_old, c))));
        END IF;
    END LOOP;
    RETURN v_images;
END $$;

-- Relations, once for each pair whichever way round, and a LINK row for each memory that got any. Answers how many each.
CREATE FUNCTION add_edges(p_tenant uuid, p_edges jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_related jsonb;
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(p_edges) AS e(id uuid, memory_id text, link_id uuid, actor text, from_id text,
            to_id text, category text, strength real)),
    made AS (
        INSERT INTO relations (tenant_id, id, from_id, to_id, strength)
            SELECT p_tenant, id, from_id, to_id, strength FROM asked
            ON CONFLICT (tenant_id, least(from_id, to_id), greatest(from_id, to_id)) DO NOTHING RETURNING id),
    linked AS (
        INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
            SELECT p_tenant, a.link_id, a.memory_id, 'LINK', a.actor, jsonb_build_object('edges', jsonb_agg(
                jsonb_build_object('id', CASE WHEN a.from_id = a.memory_id THEN a.to_id ELSE a.from_id END,
                                   'category', a.category, 'strength', a.strength))), clock_timestamp()
            FROM asked a JOIN made USING (id) GROUP BY a.link_id, a.memory_id, a.actor
            RETURNING memory_id, jsonb_array_length(meta->'edges') AS edges)
    SELECT jsonb_object_agg(memory_id, edges) INTO v_related FROM linked;
    RETURN coalesce(v_related, '{}');
END $$;

-- Idempotency: a second caller with the same key waits here for the first one's commit. NULL when all keys are new.
CREATE FUNCTION claim_keys(p_tenant uuid, p_keys jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r idempotency_keys;
    v_count int;
BEGIN
    INSERT INTO idempotency_keys (tenant_id, key_id, route, key, body_hash, response)
        SELECT p_tenant, k.key_id, k.route, k.key, k.body_hash, '{}'
        FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, body_hash bytea)
        ORDER BY k.key_id, k.route, k.key ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = jsonb_array_length(p_keys) THEN RETURN NULL; END IF;
    IF jsonb_array_length(p_keys) > 1 THEN RAISE EXCEPTION 'used before' USING ERRCODE = 'MN425'; END IF;
    SELECT * INTO r FROM idempotency_keys WHERE tenant_id = p_tenant AND key_id = (p_keys#>>'{0,key_id}')::uuid
        AND route = p_keys#>>'{0,route}' AND key = p_keys#>>'{0,key}';
    RETURN jsonb_build_object('replay', r.response, 'same_body', r.body_hash = (p_keys#>>'{0,body_hash}')::bytea);
END $$;

-- Part of every write, in its own transaction: what was erased is not stored again.
CREATE FUNCTION refuse_erased(p_tenant uuid, p_hashes bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM tombstones WHERE tenant_id = p_tenant AND hash = ANY (p_hashes);
    IF FOUND THEN RAISE EXCEPTION 'this text was erased' USING ERRCODE = 'MN410'; END IF;
END $$;

-- Everything of one user goes; history and change_log rows stay without text. The caller holds the user's row locked,
-- so that nothing is written for the user meanwhile. Answers what went, by table.
CREATE FUNCTION erase_user(p_tenant uuid, p_user text, p_hashes bytea[], p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user));
    v_done jsonb := jsonb_build_object('memories', cardinality(v_ids));
    v_count int;
BEGIN
    INSERT INTO tombstones (tenant_id, hash) SELECT p_tenant, h FROM unnest(p_hashes) h ON CONFLICT DO NOTHING;
    UPDATE history SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('history_blanked', v_count);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('changes_blanked', v_count);
    DELETE FROM relations WHERE tenant_id = p_tenant AND (from_id = ANY (v_ids) OR to_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('relations', v_count);
    DELETE FROM events WHERE tenant_id = p_tenant AND (user_id = p_user OR memory_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND response->>'id' = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    DELETE FROM jobs WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    DELETE FROM supervisor_checkpoints WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('checkpoints', v_count);
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user);
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $$;

-- Drops what is kept only for a time: revisions beyond the newest p_revisions of a thread, old events and dead jobs,
-- old idempotency records and finished jobs. With p_dry_run it only counts.
CREATE FUNCTION expire_records(p_tenant uuid, p_revisions bigint, p_events timestamptz, p_keys timestamptz, p_dry_run boolean)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_done jsonb;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT jsonb_build_object(
        'change_log', (SELECT count(*) FROM change_log c JOIN thread_revision t USING (tenant_id, thread_id)
                       WHERE c.tenant_id = p_tenant AND c.rev <= t.rev - p_revisions),
        'events', (SELECT count(*) FROM events WHERE tenant_id = p_tenant AND ts < p_events),
        'idempotency_keys', (SELECT count(*) FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys),
        'jobs', (SELECT count(*) FROM jobs WHERE tenant_id = p_tenant AND (state = 'done' AND updated_at < p_keys
                                                                        OR state = 'dead' AND updated_at < p_events))) INTO v_done;
    IF p_dry_run THEN RETURN v_done; END IF;
    DELETE FROM change_log c USING thread_revision t
        WHERE c.tenant_id = p_tenant AND t.tenant_id = p_tenant AND t.thread_id = c.thread_id AND c.rev <= t.rev - p_revisions;
    DELETE FROM events WHERE tenant_id = p_tenant AND ts < p_events;
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys;
    DELETE FROM jobs WHERE tenant_id = p_tenant AND (state = 'done' AND updated_at < p_keys
                                                     OR state = 'dead' AND updated_at < p_events);
    RETURN v_done;
END $$;

-- apply_changes_<space> with its record_changes_<space>: static statements, since a dynamic one would be planned anew
-- on every call.
CREATE FUNCTION create_journal(p_space text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    -- New memories, and the only writer of history, change_log, thread_revision and events.
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_batch jsonb, p_vector_ids uuid[], p_vectors halfvec[], p_images jsonb)
    RETURNS jsonb LANGUAGE plpgsql AS $fn$
DECLARE
    v_revs jsonb;
BEGIN
    -- threads first, and sorted, so that two transactions never wait for each other; the row lock makes revision
    -- order = commit order
    WITH threads AS MATERIALIZED (
        INSERT INTO thread_revision AS t (tenant_id, thread_id, rev)
            SELECT p_tenant, n.key, n.value::bigint FROM jsonb_each_text(p_batch->'threads') n ORDER BY n.key
            ON CONFLICT (tenant_id, thread_id) DO UPDATE SET rev = t.rev + excluded.rev
            RETURNING thread_id, rev),
    fresh AS (
        INSERT INTO memories AS m (tenant_id, id, user_pk, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type,
                category, text, steps_text, text_hash, importance, pinned, tags, state, source, metadata, version,
                created_at, updated_at)
            SELECT p_tenant, r.id, u.user_pk, r.user_id, r.thread_id, r.seq, r.agent_id, r.run_id, r.actor_id, r.role, r.type,
                r.category, r.text, r.steps_text, r.text_hash, r.importance, r.pinned, r.tags, 'active', r.source, r.metadata,
                1, r.created_at, r.updated_at
            FROM jsonb_to_recordset(p_batch->'memories') AS r(id uuid, user_id text, thread_id text, seq bigint, agent_id text,
                run_id text, actor_id text, role text, type text, category text, text text, steps_text text, text_hash bytea,
                importance smallint, pinned boolean, tags text[], source jsonb, metadata jsonb, created_at timestamptz,
                updated_at timestamptz)
            JOIN users u ON u.tenant_id = p_tenant AND u.user_id = r.user_id
            WHERE (SELECT count(*) FROM threads) >= 0  -- not before the threads are locked
            RETURNING m.id, m.user_pk, m.type, m.category, memory_json(m) AS after),
    embedded AS (
        INSERT INTO %2$I (tenant_id, user_pk, memory_id, type, category, state, embedding)
            SELECT p_tenant, f.user_pk, f.id, f.type, f.category, 'active', v.embedding
            FROM fresh f JOIN unnest(p_vector_ids, p_vectors) AS v(id, embedding) USING (id)),
    noted AS (
        INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim)
            SELECT p_tenant, e.* FROM jsonb_to_recordset(p_batch->'events') AS e(id uuid, user_id text, thread_id text,
                node text, op text, status text, memory_id text, category text, sim real)),
    queued AS (
        INSERT INTO jobs (tenant_id, id, kind, user_id, payload)
            SELECT p_tenant, j.* FROM jsonb_to_recordset(p_batch->'jobs') AS j(id uuid, kind text, user_id text, payload jsonb)),
    kept AS (
        INSERT INTO history (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts)
            SELECT p_tenant, h.id, h.memory_id::text, h.event, h.old_ref, h.new_ref, h.actor,
                   CASE WHEN h.event = 'PURGE' THEN '{}'::jsonb WHEN f.id IS NULL THEN p_images->h.memory_id::text
                        ELSE jsonb_build_object('after', f.after) END || coalesce(h.meta, '{}'),
                   clock_timestamp()
            FROM jsonb_to_recordset(p_batch->'history') AS h(id uuid, memory_id uuid, event text, old_ref text, new_ref text,
                actor text, meta jsonb)
            LEFT JOIN fresh f ON f.id = h.memory_id),
    told AS (
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before, category_after, meta, ts)
            SELECT p_tenant, d.id, d.thread_id, t.rev - d.back, d.memory_id::text, d.event,
                   p_images#>>ARRAY[d.memory_id::text, 'before', 'category'],
                   coalesce(f.category, p_images#>>ARRAY[d.memory_id::text, 'after', 'category']),
                   coalesce(d.meta, '{}'), clock_timestamp()
            FROM jsonb_to_recordset(p_batch->'delta') AS d(id uuid, memory_id uuid, thread_id text, back bigint, event text,
                meta jsonb)
            JOIN threads t USING (thread_id) LEFT JOIN fresh f ON f.id = d.memory_id
            RETURNING memory_id, thread_id, rev)
    SELECT jsonb_agg(jsonb_build_array(memory_id, thread_id, rev)) INTO v_revs FROM told;
    RETURN coalesce(v_revs, '[]');
END $fn$
    $ddl$, 'record_changes_' || p_space, 'vec_' || p_space);
    EXECUTE format($ddl$
CREATE FUNCTION %1$I(p_tenant uuid, p_batch jsonb, p_vector_ids uuid[], p_vectors halfvec[], p_tombstones bytea[],
                     p_keys jsonb)
    RETURNS jsonb LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$  -- planning would cost what writing does
DECLARE
    v_images jsonb;
    v_related jsonb := '{}';
    v_revs jsonb;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_keys IS NOT NULL THEN
        v_images := claim_keys(p_tenant, p_keys);
        IF v_images IS NOT NULL THEN RETURN v_images; END IF;
    END IF;
    PERFORM refuse_erased(p_tenant, p_tombstones);
    PERFORM know_users(p_tenant, p_batch->'users');
    v_images := change_memories(p_tenant, p_batch->'updates');
    v_revs := %2$I(p_tenant, p_batch, p_vector_ids, p_vectors, v_images);
    IF v_images <> '{}' THEN
        PERFORM %3$I(p_tenant, p_vector_ids, p_vectors, ARRAY (SELECT id::uuid FROM jsonb_object_keys(v_images) id));
    END IF;
    IF p_batch ? 'edges' THEN v_related := add_edges(p_tenant, p_batch->'edges'); END IF;
    IF p_keys IS NOT NULL THEN
        UPDATE idempotency_keys i SET response = k.response || jsonb_build_object(
                'related', coalesce((v_related->>k.memory_id)::int, 0),
                'revs', (SELECT jsonb_object_agg(r->>1, r->2) FROM jsonb_array_elements(v_revs) r
                         WHERE r->>0 = k.memory_id))
            FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, memory_id text, response jsonb)
            WHERE i.tenant_id = p_tenant AND i.key_id = k.key_id AND i.route = k.route AND i.key = k.key;
    END IF;
    RETURN jsonb_build_object('revs', v_revs, 'rows', v_images, 'related', v_related);
END $fn$
    $ddl$, 'apply_changes_' || p_space, 'record_changes_' || p_space, 'put_vectors_' || p_space);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I, %I TO mnema_app', 'record_changes_' || p_space,
                   'apply_changes_' || p_space);
END $space$;

GRANT EXECUTE ON FUNCTION memory_json(memories), know_users(uuid, jsonb), update_memory(memories, jsonb),
    locked_memory(uuid, jsonb), purge_memory(memories), change_memories(uuid, jsonb), add_edges(uuid, jsonb),
    claim_keys(uuid, jsonb), refuse_erased(uuid, bytea[]), erase_user(uuid, text, bytea[], text), expire_records(uuid, bigint, timestamptz, timestamptz, boolean) TO mnema_app;
