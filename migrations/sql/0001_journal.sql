-- Writing: one call carries every change of a use-case together with its history, revisions, delta, events, relations,
-- jobs and idempotency record, in one round trip and one transaction.
--
-- p_changes: array of
--   {op: insert|update|purge|note, id, user_id, row|set, expect_version?, expect_states?, vector?: index in p_vectors,
--    touch_vector?, history: [{id, event, old_ref, new_ref, actor, meta}], delta: [{id, thread_id, event, meta}],
--    tombstones?: [hashes that must not have been erased], events: [{id, …}], edges: [{id, from_id, to_id, category, strength}], link_id?, jobs: [{id, kind, payload}]}
-- Answer: {replay} when the idempotency key was used before, else {results: [{id, version, related, revs, row}]}.
-- Errors: MN404 not visible, MN412 version, MN409 state, MN410 erased.

CREATE FUNCTION lock_threads(p_tenant uuid, p_changes jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_next jsonb := '{}';
    v_thread record;
    v_rev bigint;
BEGIN
    -- sorted, so that two transactions never wait for each other; the row lock makes revision order = commit order
    FOR v_thread IN
        SELECT d->>'thread_id' AS id, count(*) AS n
        FROM jsonb_array_elements(p_changes) c, jsonb_array_elements(c->'delta') d GROUP BY 1 ORDER BY 1
    LOOP
        INSERT INTO thread_revision AS t (tenant_id, thread_id, rev) VALUES (p_tenant, v_thread.id, v_thread.n)
            ON CONFLICT (tenant_id, thread_id) DO UPDATE SET rev = t.rev + excluded.rev
            RETURNING t.rev - v_thread.n INTO v_rev;
        v_next := v_next || jsonb_build_object(v_thread.id, v_rev);
    END LOOP;
    RETURN v_next;
END $$;

CREATE FUNCTION user_pk_for(p_tenant uuid, p_user text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
BEGIN
    IF v_pk IS NULL THEN
        INSERT INTO users (tenant_id, user_id) VALUES (p_tenant, p_user)
            ON CONFLICT DO NOTHING RETURNING user_pk INTO v_pk;
        v_pk := coalesce(v_pk, user_pk_of(p_tenant, p_user));  -- somebody else's insert, committed while we waited
    END IF;
    RETURN v_pk;
END $$;

CREATE FUNCTION insert_memory(p_tenant uuid, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories := jsonb_populate_record(NULL::memories, p_change->'row');
BEGIN
    INSERT INTO memories (tenant_id, id, user_pk, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type, category,
            text, steps_text, text_hash, importance, pinned, tags, state, source, metadata, superseded_by, purge_at,
            version, created_at, updated_at)
        VALUES (p_tenant, (p_change->>'id')::uuid, user_pk_for(p_tenant, r.user_id), r.user_id, r.thread_id, r.seq,
            r.agent_id, r.run_id, r.actor_id, r.role, r.type, r.category, r.text, r.steps_text, r.text_hash, r.importance,
            r.pinned, r.tags, 'active', r.source, r.metadata, NULL, NULL, 1, r.created_at, r.updated_at)
        RETURNING * INTO r;
    RETURN r;
END $$;

CREATE FUNCTION update_memory(p_old memories, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories := jsonb_populate_record(p_old, p_change->'set');
BEGIN
    UPDATE memories m SET text = r.text, steps_text = r.steps_text, text_hash = r.text_hash, category = r.category,
            importance = r.importance, pinned = r.pinned, tags = r.tags, state = r.state, source = r.source,
            metadata = r.metadata, superseded_by = r.superseded_by, purge_at = r.purge_at,
            version = m.version + 1, updated_at = r.updated_at
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

CREATE FUNCTION put_vector(p_table text, r memories, p_vector halfvec, p_insert boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_insert THEN
        EXECUTE format('INSERT INTO %I (tenant_id, user_pk, memory_id, type, category, state, embedding)
                        VALUES ($1, $2, $3, $4, $5, $6, $7)', p_table)
            USING r.tenant_id, r.user_pk, r.id, r.type, r.category, r.state, p_vector;
    ELSIF p_vector IS NOT NULL THEN
        EXECUTE format('INSERT INTO %I AS v (tenant_id, user_pk, memory_id, type, category, state, embedding)
                        VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant_id, memory_id)
                        DO UPDATE SET embedding = $7, category = $5, state = $6', p_table)
            USING r.tenant_id, r.user_pk, r.id, r.type, r.category, r.state, p_vector;
    ELSE
        EXECUTE format('UPDATE %I SET category = $3, state = $4 WHERE tenant_id = $1 AND memory_id = $2
                        AND (category, state) IS DISTINCT FROM ($3, $4)', p_table)
            USING r.tenant_id, r.id, r.category, r.state;
    END IF;
END $$;

-- Purge leaves no text behind: not in the row, not in older history, not in the delta.
CREATE FUNCTION purge_memory(r memories) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM relations WHERE tenant_id = r.tenant_id AND (from_id = r.id::text OR to_id = r.id::text);
    UPDATE history SET meta = '{}' WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = r.tenant_id AND memory_id = r.id::text;
    DELETE FROM memories WHERE tenant_id = r.tenant_id AND id = r.id;
END $$;

CREATE FUNCTION add_edges(p_tenant uuid, p_change jsonb) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_made jsonb;
BEGIN
    IF p_change->'edges' IS NULL OR p_change->'edges' = '[]' THEN RETURN 0; END IF;
    WITH made AS (
        INSERT INTO relations (tenant_id, id, from_id, to_id, strength)
            SELECT p_tenant, (e->>'id')::uuid, e->>'from_id', e->>'to_id', (e->>'strength')::real
            FROM jsonb_array_elements(p_change->'edges') e
            ON CONFLICT DO NOTHING  -- once for each pair, whichever way round
            RETURNING from_id, to_id, strength)
    SELECT jsonb_agg(jsonb_build_object('id', o.other, 'category', e->>'category', 'strength', m.strength)) INTO v_made
        FROM made m
        CROSS JOIN LATERAL (SELECT CASE WHEN m.from_id = p_change->>'id' THEN m.to_id ELSE m.from_id END AS other) o
        JOIN LATERAL (SELECT x FROM jsonb_array_elements(p_change->'edges') x
                      WHERE o.other IN (x->>'from_id', x->>'to_id') LIMIT 1) AS edge(e) ON true;
    IF v_made IS NULL THEN RETURN 0; END IF;
    INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
        VALUES (p_tenant, (p_change->>'link_id')::uuid, p_change->>'id', 'LINK', p_change#>>'{history,0,actor}',
                jsonb_build_object('edges', v_made), clock_timestamp());
    RETURN jsonb_array_length(v_made);
END $$;

-- The journal proper: the only writer of history, change_log, thread_revision, events and outbox.
CREATE FUNCTION journal_record(p_tenant uuid, p_change jsonb, p_before jsonb, p_after jsonb, p_next jsonb)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_revs jsonb := '{}';
    d jsonb;
    v_rev bigint;
BEGIN
    INSERT INTO history (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts)
        SELECT p_tenant, (h->>'id')::uuid, p_change->>'id', h->>'event', h->>'old_ref', h->>'new_ref', h->>'actor',
               CASE WHEN h->>'event' = 'PURGE' THEN '{}'::jsonb
                    ELSE jsonb_strip_nulls(jsonb_build_object('before', p_before, 'after', p_after)) END
               || coalesce(h->'meta', '{}'), clock_timestamp()
        FROM jsonb_array_elements(p_change->'history') h;
    FOR d IN SELECT value FROM jsonb_array_elements(p_change->'delta') LOOP
        v_rev := (p_next->>(d->>'thread_id'))::bigint + 1;
        p_next := p_next || jsonb_build_object(d->>'thread_id', v_rev);
        v_revs := v_revs || jsonb_build_object(d->>'thread_id', v_rev);
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before, category_after, meta, ts)
            VALUES (p_tenant, (d->>'id')::uuid, d->>'thread_id', v_rev, p_change->>'id', d->>'event',
                    p_before->>'category', p_after->>'category', coalesce(d->'meta', '{}'), clock_timestamp());
    END LOOP;
    INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim)
        SELECT p_tenant, (e->>'id')::uuid, e->>'user_id', e->>'thread_id', e->>'node', e->>'op', e->>'status',
               e->>'memory_id', e->>'category', (e->>'sim')::real
        FROM jsonb_array_elements(p_change->'events') e;
    IF p_change ? 'jobs' THEN
        INSERT INTO outbox (tenant_id, id, kind, payload)
            SELECT p_tenant, (j->>'id')::uuid, j->>'kind', j->'payload' FROM jsonb_array_elements(p_change->'jobs') j;
    END IF;
    RETURN jsonb_build_object('revs', v_revs, 'next', p_next);
END $$;

CREATE FUNCTION claim_idempotency(p_tenant uuid, p_key jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r idempotency_keys;
BEGIN
    -- a second caller with the same key waits here for the first one's commit
    INSERT INTO idempotency_keys (tenant_id, key_id, route, key, body_hash, response)
        VALUES (p_tenant, (p_key->>'key_id')::uuid, p_key->>'route', p_key->>'key', (p_key->>'body_hash')::bytea, '{}')
        ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN NULL; END IF;
    SELECT * INTO r FROM idempotency_keys WHERE tenant_id = p_tenant AND key_id = (p_key->>'key_id')::uuid
        AND route = p_key->>'route' AND key = p_key->>'key';
    RETURN jsonb_build_object('replay', r.response, 'same_body', r.body_hash = (p_key->>'body_hash')::bytea);
END $$;

-- Part of every write, in its own transaction: what was erased is not stored again.
CREATE FUNCTION refuse_erased(p_tenant uuid, p_hashes jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM tombstones
      WHERE tenant_id = p_tenant AND hash = ANY (ARRAY (SELECT h::bytea FROM jsonb_array_elements_text(p_hashes) h));
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
    DELETE FROM outbox WHERE tenant_id = p_tenant AND payload->>'user_id' = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('outbox', v_count);
    DELETE FROM supervisor_checkpoints WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('checkpoints', v_count);
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user);
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $$;

-- Drops what is kept only for a time: revisions beyond the newest p_revisions of a thread, old events, idempotency
-- records and published jobs. With p_dry_run it only counts.
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
        'outbox', (SELECT count(*) FROM outbox WHERE tenant_id = p_tenant AND published_at < p_keys)) INTO v_done;
    IF p_dry_run THEN RETURN v_done; END IF;
    DELETE FROM change_log c USING thread_revision t
        WHERE c.tenant_id = p_tenant AND t.tenant_id = p_tenant AND t.thread_id = c.thread_id AND c.rev <= t.rev - p_revisions;
    DELETE FROM events WHERE tenant_id = p_tenant AND ts < p_events;
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys;
    DELETE FROM outbox WHERE tenant_id = p_tenant AND published_at < p_keys;
    RETURN v_done;
END $$;

CREATE FUNCTION apply_change(p_tenant uuid, p_table text, p_change jsonb, p_vectors halfvec[], p_next jsonb)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_hidden text[] := ARRAY['tsv', 'text_hash', 'user_pk', 'tenant_id'];
    v_old memories;
    v_new memories;
    v_before jsonb;
    v_after jsonb;
    v_vector halfvec := p_vectors[(p_change->>'vector')::int];
    v_done jsonb;
BEGIN
    IF p_change ? 'tombstones' THEN PERFORM refuse_erased(p_tenant, p_change->'tombstones'); END IF;
    IF p_change->>'op' = 'insert' THEN
        v_new := insert_memory(p_tenant, p_change);
        PERFORM put_vector(p_table, v_new, v_vector, true);
    ELSIF p_change->>'op' = 'update' THEN
        v_old := locked_memory(p_tenant, p_change);
        v_before := to_jsonb(v_old) - v_hidden;
        v_new := update_memory(v_old, p_change);
        IF v_vector IS NOT NULL OR v_old.category <> v_new.category OR v_old.state <> v_new.state THEN
            PERFORM put_vector(p_table, v_new, v_vector, false);
        END IF;
    ELSIF p_change->>'op' = 'purge' THEN
        v_old := locked_memory(p_tenant, p_change);
        v_before := jsonb_build_object('category', v_old.category);
        PERFORM purge_memory(v_old);
    END IF;
    IF v_new.id IS NOT NULL THEN v_after := to_jsonb(v_new) - v_hidden; END IF;
    v_done := journal_record(p_tenant, p_change, v_before, v_after, p_next);
    RETURN v_done || jsonb_build_object('id', p_change->>'id', 'row', v_after, 'related', add_edges(p_tenant, p_change));
END $$;

CREATE FUNCTION apply_changes(p_tenant uuid, p_space text, p_changes jsonb, p_vectors halfvec[], p_key jsonb, p_response jsonb)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_next jsonb;
    v_results jsonb[] := '{}';  -- an array grows in place; appending to a jsonb would copy it each time
    v_done jsonb;
    c jsonb;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_key IS NOT NULL THEN
        v_done := claim_idempotency(p_tenant, p_key);
        IF v_done IS NOT NULL THEN RETURN v_done; END IF;
    END IF;
    v_next := lock_threads(p_tenant, p_changes);
    PERFORM user_pk_for(p_tenant, u.id) FROM (  -- new users in sorted order too
        SELECT DISTINCT x#>>'{row,user_id}' AS id FROM jsonb_array_elements(p_changes) x WHERE x ? 'row' ORDER BY 1) u;
    FOR c IN SELECT value FROM jsonb_array_elements(p_changes) LOOP
        v_done := apply_change(p_tenant, 'vec_' || p_space, c, p_vectors, v_next);
        v_next := v_done->'next';
        v_results := array_append(v_results, v_done - 'next');
    END LOOP;
    IF p_key IS NOT NULL THEN
        UPDATE idempotency_keys
            SET response = p_response || jsonb_build_object('revs', v_done->'revs', 'related', v_done->'related')
            WHERE tenant_id = p_tenant AND key_id = (p_key->>'key_id')::uuid AND route = p_key->>'route'
              AND key = p_key->>'key';
    END IF;
    RETURN jsonb_build_object('results', to_jsonb(v_results));
END $$;

GRANT EXECUTE ON FUNCTION lock_threads(uuid, jsonb), user_pk_for(uuid, text), insert_memory(uuid, jsonb),
    update_memory(memories, jsonb), locked_memory(uuid, jsonb), put_vector(text, memories, halfvec, boolean),
    purge_memory(memories), add_edges(uuid, jsonb), journal_record(uuid, jsonb, jsonb, jsonb, jsonb),
    claim_idempotency(uuid, jsonb), refuse_erased(uuid, jsonb), erase_user(uuid, text, bytea[], text),
    expire_records(uuid, bigint, timestamptz, timestamptz, boolean), apply_change(uuid, text, jsonb, halfvec[], jsonb),
    apply_changes(uuid, text, jsonb, halfvec[], jsonb, jsonb) TO mnema_app;
