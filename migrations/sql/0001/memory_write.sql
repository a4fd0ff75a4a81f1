-- Writing: apply_changes_<space> takes all changes of a use-case, with their history, revisions, delta, events,
-- relations, jobs and idempotency records, in one round trip and one transaction. Each table is written once, in one
-- statement for all changes. create_journal makes the function for each embedding space.
--
-- p_batch; a key that would be empty is left out, except `history` and `events`:
--   users      [the users of new memories]
--   threads    {thread_id: number of new revisions}
--   updates    [{op: update|purge, id, actor, set, expect_version?, expect_states?}], in order and before the inserts
--   memories   [a new row]
--   history    [{id, memory_id, event, old_ref, new_ref, actor, meta}]
--   delta      [{id, memory_id, thread_id, back: number of later revisions of this thread, event, meta}]
--   also       [{memory_id, event, meta, of: [ids], threads}]: a change that is also for the deltas of all other
-- threads
--              which have told of a memory of `of`; `threads` are in `delta` already
--   events     [{id, user_id, thread_id, node, op, status, memory_id, category, sim}]
--   relations  [{id, from_id, to_id, strength, other?: the memory that was stored before}] of new memories
--   related    {memory_id: number of its new `relations`}
--   edges      [{id, memory_id: the changed memory, link_id, actor, from_id, to_id, category, strength}]
--   retold     [the updated memories whose text is new]: `edges` has all relations that they keep
--   jobs       [{id, kind, user_id, payload}]
--   facts      [the statements that apply_facts takes]
-- p_vectors and p_tokens belong to p_vector_ids. p_tombstones are the hashes of the new texts: an erased one is
-- refused. p_keys are the idempotency records [{key_id, route, key, body_hash, user_id, memory_id, response}].
--
-- Returns {replay, same_body} if the one idempotency key was used before, else {revs: [[memory_id, thread_id, rev]],
-- rows: {memory_id: {before, after}} of updated memories, related: {memory_id: number of new relations}, facts: [the
-- answers of apply_facts], fact_memories: [{id, version, text}: the memories of facts that have no vector yet]}.
-- Errors: MN404 not visible, MN409 wrong state, MN410 erased text, MN412 wrong version, MN423 the memory tells facts,
-- MN425 one of several idempotency keys was used before, 40001 a related memory was purged meanwhile.

-- Return a memory as history keeps it and as the application reads it: without the text index and the internal user
-- key.
CREATE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'seq', r.seq,
        'agent_id', r.agent_id, 'run_id', r.run_id, 'actor_id', r.actor_id, 'role', r.role, 'type', r.type,
        'category', r.category, 'text', r.text, 'steps_text', r.steps_text, 'importance', r.importance,
        'pinned', r.pinned, 'tags', r.tags, 'state', r.state, 'source', r.source, 'metadata', r.metadata,
        'superseded_by', r.superseded_by, 'purge_at', r.purge_at, 'version', r.version, 'created_at', r.created_at,
        'updated_at', r.updated_at);
GRANT EXECUTE ON FUNCTION memory_json(memories) TO mnema_app;

-- Insert idempotency records and return NULL if all are new. A second caller with the same key waits for the first
-- caller's commit. If the only key was used before, return {replay, same_body}; if one of several was, raise MN425.
CREATE FUNCTION claim_keys(p_tenant uuid, p_keys jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r idempotency_keys;
    v_count int;
BEGIN
    WITH known AS MATERIALIZED (  -- locks the user's row against an erasure
        SELECT user_id FROM users WHERE tenant_id = p_tenant
        AND user_id IN (SELECT k->>'user_id' FROM jsonb_array_elements(p_keys) k) ORDER BY user_id FOR KEY SHARE)
    INSERT INTO idempotency_keys (tenant_id, key_id, route, key, body_hash, user_id, response)
        SELECT p_tenant, k.key_id, k.route, k.key, k.body_hash,
               -- Mnema's own work (no API key) may end after an erasure: it must not name the user again
               CASE WHEN k.key_id = '00000000-0000-0000-0000-000000000000' THEN n.user_id ELSE k.user_id END, '{}'
        FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, body_hash bytea, user_id text)
        LEFT JOIN known n ON n.user_id = k.user_id
        ORDER BY k.key_id, k.route, k.key ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = jsonb_array_length(p_keys) THEN RETURN NULL; END IF;
    IF jsonb_array_length(p_keys) > 1 THEN RAISE EXCEPTION 'used before' USING ERRCODE = 'MN425'; END IF;
    SELECT * INTO r FROM idempotency_keys WHERE tenant_id = p_tenant AND key_id = (p_keys#>>'{0,key_id}')::uuid
        AND route = p_keys#>>'{0,route}' AND key = p_keys#>>'{0,key}';
    RETURN jsonb_build_object('replay', r.response, 'same_body', r.body_hash = (p_keys#>>'{0,body_hash}')::bytea);
END $$;
GRANT EXECUTE ON FUNCTION claim_keys(uuid, jsonb) TO mnema_app;

-- Lock and return a memory. Raises MN404 if it does not exist, MN423 if it tells facts (only one that is soft-deleted
-- may be purged), MN409 if it is in another state than expected and MN412 if it is at another version than expected.
CREATE FUNCTION locked_memory(p_tenant uuid, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories;
BEGIN
    SELECT * INTO r FROM memories WHERE tenant_id = p_tenant AND id = (p_change->>'id')::uuid FOR UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION 'no such memory' USING ERRCODE = 'MN404'; END IF;
    IF r.fact_topic IS NOT NULL AND NOT (p_change->>'op' = 'purge' AND r.state = 'soft_deleted') THEN
        RAISE EXCEPTION 'this memory tells facts' USING ERRCODE = 'MN423';
    END IF;
    IF NOT (coalesce(p_change->'expect_states', jsonb_build_array(r.state)) ? r.state) THEN
        RAISE EXCEPTION 'memory is %', r.state USING ERRCODE = 'MN409';
    END IF;
    IF r.version <> coalesce((p_change->>'expect_version')::int, r.version) THEN
        RAISE EXCEPTION 'memory is at version %', r.version USING ERRCODE = 'MN412';
    END IF;
    RETURN r;
END $$;
GRANT EXECUTE ON FUNCTION locked_memory(uuid, jsonb) TO mnema_app;

-- Update a memory with the fields of p_change->'set' and return the new row.
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
GRANT EXECUTE ON FUNCTION update_memory(memories, jsonb) TO mnema_app;

-- Delete a memory with its relations, and blank its text in older history and in the change log.
CREATE FUNCTION purge_memory(r memories) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM relations WHERE tenant_id = r.tenant_id AND (from_id = r.id::text OR to_id = r.id::text);
    PERFORM blank_history(r.tenant_id, ARRAY[r.id::text]);
    UPDATE change_log SET meta = CASE WHEN meta ? 'replaces' THEN jsonb_build_object('replaces', meta->'replaces')
        ELSE '{}' END
        WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    DELETE FROM memories WHERE tenant_id = r.tenant_id AND id = r.id;
END $$;
GRANT EXECUTE ON FUNCTION purge_memory(memories) TO mnema_app;

-- Change the chunks of a turn with it, before the turn itself changes: they are purged with its text (p_new NULL: the
-- turn is purged), and have its state and category. Returns the images of those that stay.
CREATE FUNCTION follow_turn(p_old memories, p_new memories, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_images jsonb := '{}';
    v_image jsonb;
    v_event text := CASE WHEN p_new.state = p_old.state THEN 'UPDATE' WHEN p_new.state = 'active' THEN 'RESTORE'
        ELSE 'DELETE' END;
    v_set jsonb := jsonb_build_object('state', p_new.state, 'purge_at', p_new.purge_at, 'category', p_new.category,
                                      'updated_at', p_new.updated_at);
    r memories;
BEGIN
    IF (p_new.text, p_new.state, p_new.category) IS NOT DISTINCT FROM (p_old.text, p_old.state, p_old.category)
        THEN RETURN v_images; END IF;
    FOR r IN SELECT m.* FROM chunks c JOIN memories m ON m.tenant_id = c.tenant_id AND m.id = c.memory_id
             WHERE c.tenant_id = p_old.tenant_id AND c.turn_id = p_old.id ORDER BY c.ordinal FOR UPDATE OF m LOOP
        IF p_new.text IS DISTINCT FROM p_old.text THEN
            PERFORM purge_memory(r);
            INSERT INTO history (tenant_id, id, memory_id, event, actor)
                VALUES (r.tenant_id, gen_random_uuid(), r.id::text, 'PURGE', p_actor);
        ELSE
            v_image := jsonb_build_object('before', memory_json(r),
                                          'after', memory_json(update_memory(r, jsonb_build_object('set', v_set))));
            INSERT INTO history (tenant_id, id, memory_id, event, actor, meta)
                VALUES (r.tenant_id, gen_random_uuid(), r.id::text, v_event, p_actor, v_image);
            v_images := v_images || jsonb_build_object(r.id, v_image);
        END IF;
    END LOOP;
    RETURN v_images;
END $$;
GRANT EXECUTE ON FUNCTION follow_turn(memories, memories, text) TO mnema_app;

-- Apply updates and purges one after the other, and to the chunks of turns. Returns {memory_id: {before, after}}; of a
-- purged memory only what outlives it: category, type, state and user before.
CREATE FUNCTION change_memories(p_tenant uuid, p_updates jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_images jsonb := '{}';
    v_old memories;
    c jsonb;
BEGIN
    FOR c IN SELECT value FROM jsonb_array_elements(p_updates) LOOP
        v_old := locked_memory(p_tenant, c);
        IF v_old.type = 'turn' THEN
            v_images := v_images || follow_turn(v_old, CASE WHEN c->>'op' = 'update' THEN
                jsonb_populate_record(v_old, c->'set') END, c->>'actor');
        END IF;
        IF c->>'op' = 'purge' THEN
            PERFORM purge_memory(v_old);
            v_images := v_images || jsonb_build_object(v_old.id,
                jsonb_build_object('before', jsonb_build_object('category', v_old.category, 'type', v_old.type,
                                                                'state', v_old.state, 'user_id', v_old.user_id)));
        ELSE
            v_images := v_images || jsonb_build_object(v_old.id, jsonb_build_object(
                'before', memory_json(v_old), 'after', memory_json(update_memory(v_old, c))));
        END IF;
    END LOOP;
    RETURN v_images;
END $$;
GRANT EXECUTE ON FUNCTION change_memories(uuid, jsonb) TO mnema_app;

-- Return what a bullet of the delta shows of a memory (of memory_json) as one key: of its text, and of its importance.
CREATE FUNCTION content_key(r jsonb) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN md5(jsonb_build_array(r->'category', r->'text', r->'steps_text')::text) || ':' || (r->>'importance');
GRANT EXECUTE ON FUNCTION content_key(jsonb) TO mnema_app;

-- Return a batch whose `delta` has a row for each thread that has told of a changed memory, or of one that it replaces:
-- a thread that showed a memory also shows its end. A purge of a memory that was not active needs no row, because the
-- soft delete has one. The caller holds the locks of the memories, so that no other thread can tell of them meanwhile.
CREATE FUNCTION add_missing_thread_changes(p_tenant uuid, p_batch jsonb, p_images jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_more jsonb;
    v_threads jsonb;
BEGIN
    WITH missing AS MATERIALIZED (
        SELECT DISTINCT a.place, a.memory_id, a.event, a.meta, c.thread_id
        FROM ROWS FROM (jsonb_to_recordset(p_batch->'also') AS (memory_id text, event text, meta jsonb, of text[],
            threads text[]))
            WITH ORDINALITY AS a(memory_id, event, meta, of, threads, place)
        JOIN change_log c ON c.tenant_id = p_tenant AND c.memory_id = ANY (a.of) AND c.thread_id <> ALL (a.threads)
        WHERE a.event <> 'deleted' OR p_images#>>ARRAY[a.memory_id, 'before', 'state'] = 'active'),
    numbered AS (
        SELECT m.*, coalesce((p_batch#>>ARRAY['threads', m.thread_id])::bigint, 0) AS others, count(*) OVER t AS rows,
               row_number() OVER (t ORDER BY m.place DESC) - 1 AS later
        FROM missing m WINDOW t AS (PARTITION BY m.thread_id))
    SELECT jsonb_agg(jsonb_build_object('id', gen_random_uuid(), 'memory_id', n.memory_id, 'thread_id', n.thread_id,
                                        'event', n.event, 'meta', n.meta, 'back', n.others + n.later)),
           jsonb_object_agg(n.thread_id, n.others + n.rows)
        INTO v_more, v_threads FROM numbered n;
    IF v_more IS NULL THEN RETURN p_batch; END IF;
    RETURN p_batch || jsonb_build_object('delta', v_more || coalesce(p_batch->'delta', '[]'),
                                         'threads', coalesce(p_batch->'threads', '{}') || v_threads);
END $$;
GRANT EXECUTE ON FUNCTION add_missing_thread_changes(uuid, jsonb, jsonb) TO mnema_app;

-- Insert relations, one for each pair in either direction, and a LINK row for each memory that got one. The relations
-- of p_retold are replaced: those that are not in p_edges go, the others get the new strength. A memory that was purged
-- meanwhile gets none. Returns {memory_id: number of relations}.
CREATE FUNCTION add_edges(p_tenant uuid, p_edges jsonb, p_retold text[]) RETURNS jsonb LANGUAGE plpgsql AS $$
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
END $$;
GRANT EXECUTE ON FUNCTION add_edges(uuid, jsonb, text[]) TO mnema_app;

-- Fail the statement: a memory that a new one is related to was purged meanwhile, so the caller must start again.
CREATE FUNCTION purged_meanwhile() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a related memory was purged' USING ERRCODE = 'serialization_failure';
END $$;
GRANT EXECUTE ON FUNCTION purged_meanwhile() TO mnema_app;

-- Make record_changes_<space> and apply_changes_<space>.
CREATE FUNCTION create_journal(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/record_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{spaces/apply_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

-- Make neighbours_<space>.
CREATE FUNCTION create_neighbours(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/neighbours.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;
