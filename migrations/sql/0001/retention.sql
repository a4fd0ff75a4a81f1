-- Forgetting and erasure: what is kept for a time only, and what goes with a user.

CREATE TABLE tombstones (                           -- keyed hashes (HMAC-SHA-256) of erased texts, turns and users
    tenant_id   uuid NOT NULL,
    hash        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, hash)
);
GRANT SELECT, INSERT, UPDATE (created_at) ON tombstones TO mnema_app;

-- Delete what is kept for a time only, at most p_limit rows of each table, the oldest first: revisions before the
-- newest p_revisions of a thread, events before p_events, batches and dead jobs before p_records, idempotency records
-- and finished jobs before p_keys. Most events leave with their week before (drop_partitions).
-- Returns the numbers of deleted rows by table; with p_dry_run, the numbers of all rows that would go.
CREATE FUNCTION expire_records(p_tenant uuid, p_revisions bigint, p_events timestamptz, p_records timestamptz,
                               p_keys timestamptz, p_limit int, p_dry_run boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_done jsonb := '{}';
    v_pruned jsonb;
    v_count int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_dry_run THEN
        RETURN jsonb_build_object(
            'change_log', (SELECT count(*) FROM change_log c JOIN thread_revision t USING (tenant_id, thread_id)
                           WHERE c.tenant_id = p_tenant AND c.rev <= t.rev - p_revisions),
            'events', (SELECT count(*) FROM events WHERE tenant_id = p_tenant AND ts < p_events),
            'memory_batches', (SELECT count(*) FROM memory_batches WHERE tenant_id = p_tenant
                AND created_at < p_records),
            'idempotency_keys', (SELECT count(*) FROM idempotency_keys WHERE tenant_id = p_tenant
                AND created_at < p_keys),
            'jobs', (SELECT count(*) FROM jobs WHERE tenant_id = p_tenant AND (state = 'done' AND updated_at < p_keys
                                                                            OR state = 'dead'
                                                                                AND updated_at < p_records)));
    END IF;
    DELETE FROM events WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM events WHERE tenant_id = p_tenant AND ts < p_events ORDER BY ts LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM memory_batches WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM memory_batches WHERE tenant_id = p_tenant AND created_at < p_records
        ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('memory_batches', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND ctid = ANY (ARRAY (
        SELECT ctid FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys
        ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    DELETE FROM jobs WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM jobs WHERE tenant_id = p_tenant AND state IN ('done', 'dead')
            AND updated_at < CASE state WHEN 'done' THEN p_keys ELSE p_records END
                AND updated_at < greatest(p_keys, p_records)
        ORDER BY updated_at LIMIT p_limit FOR UPDATE SKIP LOCKED));  -- skips a job that is being queued again
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    WITH deleted AS (
        DELETE FROM change_log WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
            SELECT o.id FROM thread_revision t CROSS JOIN LATERAL (
                SELECT c.id FROM change_log c
                WHERE c.tenant_id = p_tenant AND c.thread_id = t.thread_id AND c.rev <= t.rev - p_revisions
                ORDER BY c.rev LIMIT p_limit) o
            WHERE t.tenant_id = p_tenant AND t.rev > p_revisions LIMIT p_limit))
        RETURNING thread_id, rev, type, coalesce(category_after, category_before) AS category),
    newest AS (
        SELECT thread_id, category, max(rev) AS rev FROM deleted
            WHERE outside_delta(type) IS NOT TRUE AND category IS NOT NULL GROUP BY thread_id, category
        UNION ALL SELECT thread_id, '', max(rev) FROM deleted GROUP BY thread_id)
    SELECT (SELECT count(*) FROM deleted), jsonb_object_agg(n.thread_id, n.pruned) INTO v_count, v_pruned
        FROM (SELECT thread_id, jsonb_object_agg(category, rev) AS pruned FROM newest GROUP BY thread_id) n;
    v_done := v_done || jsonb_build_object('change_log', v_count);
    -- last and in the order of writers, because these rows are the locks of their threads
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id IN (SELECT jsonb_object_keys(v_pruned))
        ORDER BY thread_id FOR UPDATE;
    UPDATE thread_revision SET pruned = pruned || (v_pruned->thread_id)
        WHERE tenant_id = p_tenant AND thread_id IN (SELECT jsonb_object_keys(v_pruned));
    RETURN v_done;
END $$;
GRANT EXECUTE ON FUNCTION expire_records(uuid, bigint, timestamptz, timestamptz, timestamptz, int,
    boolean) TO mnema_app;

-- Replace the ids of a user's threads before the user is erased, and return how many were replaced. If others use a
-- thread, its id stays and the user's rows move out of its change log, except the thread's oldest row: that one says
-- how far back the log reaches. The new id is random, because nothing needs to find it again. The caller holds the
-- locks of the user's row and memories.
CREATE FUNCTION erase_threads(p_tenant uuid, p_user text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_ids text[] := ARRAY (
        SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk
        UNION ALL SELECT id::text FROM facts WHERE tenant_id = p_tenant AND user_id = p_user);
    v_threads text[] := ARRAY (
        SELECT thread_id FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM facts WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM change_log WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
        UNION SELECT thread_id FROM events WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM context_questions WHERE tenant_id = p_tenant AND user_id = p_user
        UNION SELECT thread_id FROM delta_cursors WHERE tenant_id = p_tenant AND user_id = p_user
        UNION SELECT thread_id FROM receipts WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL);
    v_new jsonb;
BEGIN
    -- Lock the threads in the order of writers. This waits for a concurrent write, which then counts below.
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads)
        ORDER BY thread_id FOR UPDATE;
    SELECT coalesce(jsonb_object_agg(t, 'erased:' || gen_random_uuid()), '{}') INTO v_new FROM unnest(v_threads) t;
    UPDATE thread_revision t SET erased = t.erased || n.erased FROM (  -- so that no reader is told an older revision
        SELECT g.thread_id, jsonb_object_agg(g.category, greatest(g.rev, (r.erased->>g.category)::bigint)) AS erased
        FROM (SELECT thread_id, coalesce(category_after, category_before) AS category, max(rev) AS rev FROM change_log
              WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids) GROUP BY 1, 2) g
        JOIN thread_revision r ON r.tenant_id = p_tenant AND r.thread_id = g.thread_id
        WHERE g.category IS NOT NULL GROUP BY g.thread_id) n
        WHERE t.tenant_id = p_tenant AND t.thread_id = n.thread_id;
    UPDATE change_log c SET thread_id = v_new->>c.thread_id
        WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
          AND rev > (SELECT min(o.rev) FROM change_log o WHERE o.tenant_id = p_tenant AND o.thread_id = c.thread_id);
    SELECT coalesce(jsonb_object_agg(t, v_new->>t), '{}') INTO v_new FROM unnest(v_threads) t
        WHERE NOT EXISTS (SELECT FROM memories WHERE tenant_id = p_tenant AND thread_id = t AND user_pk
            IS DISTINCT FROM v_pk)
          AND NOT EXISTS (SELECT FROM facts WHERE tenant_id = p_tenant AND thread_id = t AND user_id <> p_user)
          AND NOT EXISTS (SELECT FROM context_questions WHERE tenant_id = p_tenant AND thread_id = t
              AND user_id <> p_user)
          AND t NOT IN (SELECT thread_id FROM reflections WHERE tenant_id = p_tenant AND user_id <> p_user);
    v_threads := ARRAY (SELECT jsonb_object_keys(v_new));
    UPDATE change_log SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE thread_revision SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE delta_cursors SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE events SET thread_id = v_new->>thread_id
        WHERE tenant_id = p_tenant AND user_id IS NULL AND thread_id = ANY (v_threads);
    UPDATE receipts SET thread_id = v_new->>thread_id
        WHERE tenant_id = p_tenant AND user_id IS NULL AND thread_id = ANY (v_threads);
    UPDATE memory_batches SET filters = jsonb_set(filters, '{thread_id}', v_new->(filters->>'thread_id'))
        WHERE tenant_id = p_tenant AND filters->>'thread_id' = ANY (v_threads);
    RETURN cardinality(v_threads);
END $$;
GRANT EXECUTE ON FUNCTION erase_threads(uuid, text) TO mnema_app;

-- Delete a user's context and proposals; their history rows stay, without text. The caller holds the lock of the user's
-- row. The proposals are locked first, so that history that is being written about one is blanked too.
CREATE FUNCTION erase_consent(p_tenant uuid, p_user text, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
    v_values int;
BEGIN
    PERFORM 1 FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    v_ids := ARRAY (SELECT id::text FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user);
    PERFORM blank_history(p_tenant, v_ids);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND response->>'id' = ANY (v_ids);
    DELETE FROM user_context WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_values = ROW_COUNT;
    DELETE FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN jsonb_build_object('context_values', v_values, 'context_patches', cardinality(v_ids));
END $$;
GRANT EXECUTE ON FUNCTION erase_consent(uuid, text, text) TO mnema_app;

-- Delete what a user's row and memories hang together with; rows of history and change_log stay, without text. The
-- caller holds the lock of the user's row, so that nothing is written for the user meanwhile. Returns the numbers of
-- rows by table.
CREATE FUNCTION erase_user(p_tenant uuid, p_user text, p_hashes bytea[], p_actor text) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_memories text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk);
    v_facts text[] := ARRAY (SELECT id::text FROM facts WHERE tenant_id = p_tenant AND user_id = p_user);
    v_ids text[] := v_memories || v_facts;
    v_done jsonb := jsonb_build_object('memories', cardinality(v_memories), 'facts', cardinality(v_facts));
    v_count int;
BEGIN
    PERFORM keep_epoch();
    INSERT INTO tombstones AS t (tenant_id, hash, created_at) SELECT p_tenant, h, clock_timestamp()
        FROM unnest(p_hashes) h
        ON CONFLICT (tenant_id, hash) DO UPDATE SET created_at = excluded.created_at;
    v_done := v_done || jsonb_build_object('history_blanked', blank_history(p_tenant, v_ids));
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('changes_blanked', v_count);
    DELETE FROM relations WHERE tenant_id = p_tenant AND (from_id = ANY (v_ids) OR to_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('relations', v_count);
    DELETE FROM events WHERE tenant_id = p_tenant AND (user_id = p_user OR memory_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant
        AND (user_id = p_user OR user_id IS NULL AND response->>'id' = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    -- The answer of a batch over several users stays for a retry, without the ids of this user's memories.
    UPDATE idempotency_keys SET response = response || jsonb_build_object(
            'sample', (response->'sample') - v_ids,
            'left', (SELECT coalesce(jsonb_agg(l ORDER BY place), '[]')
                     FROM jsonb_array_elements(response->'left') WITH ORDINALITY e(l, place)
                     WHERE l->>0 <> ALL (v_ids)))
        WHERE tenant_id = p_tenant AND user_id IS NULL AND response ? 'batch_id'
          AND (response->'sample' ?| v_ids
               OR EXISTS (SELECT FROM jsonb_array_elements(response->'left') l WHERE l->>0 = ANY (v_ids)));
    DELETE FROM memory_batches WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('memory_batches', v_count);
    -- A batch over several users stays for the others, without words that may be about this one.
    UPDATE memory_batches SET filters = withhold(filters, '{actor_id,agent_id,run_id,tag}'),
                              changes = withhold(changes, '{add_tags,remove_tags,metadata}')
        WHERE tenant_id = p_tenant AND user_pks @> ARRAY[v_pk];
    UPDATE memory_batches SET filters = withhold(filters, '{actor_id}')
        WHERE tenant_id = p_tenant AND filters->>'actor_id' = p_user;
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk;
    DELETE FROM facts WHERE tenant_id = p_tenant AND user_id = p_user;
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $$;
GRANT EXECUTE ON FUNCTION erase_user(uuid, text, bytea[], text) TO mnema_app;
