-- Apply a batch of changes in one transaction: locks, keys, users, changed memories, new ones, facts, vectors and jobs.
CREATE OR REPLACE FUNCTION apply_changes_{space}(
    p_tenant uuid, p_batch jsonb, p_vector_ids uuid[], p_vectors halfvec[], p_tokens bytea[],
    p_tombstones bytea[], p_keys jsonb)
    -- planning costs as much as writing
    RETURNS jsonb LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
DECLARE
    v_images jsonb := '{}';
    v_related jsonb := coalesce(p_batch->'related', '{}');
    v_revs jsonb;
    v_facts jsonb;
    v_told jsonb;
    v_erased boolean;
    v_known boolean;
BEGIN
    v_known := set_config('app.tenant_id', p_tenant::text, true) = '';  -- an assignment starts no statement
    v_known := keep_epoch();
    -- Lock users first and in order, so that two transactions cannot deadlock. Transactions that relate memories of a
    -- user share the lock; one that purges a memory has it alone.
    IF p_batch @? '$.updates[*].op ? (@ == "purge")' THEN
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_pk = ANY (ARRAY (
            SELECT m.user_pk FROM memories m WHERE m.tenant_id = p_tenant AND m.id = ANY (ARRAY (
                SELECT (u->>'id')::uuid FROM jsonb_array_elements(p_batch->'updates') u)))) ORDER BY user_id FOR UPDATE;
    END IF;
    IF p_batch ? 'relations' THEN
        PERFORM 1 FROM users WHERE tenant_id = p_tenant
            AND user_id = ANY (ARRAY (SELECT jsonb_array_elements_text(p_batch->'users'))) ORDER BY user_id
                FOR KEY SHARE;
    END IF;
    IF p_batch ? 'edges' THEN
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_pk = ANY (ARRAY (
            SELECT m.user_pk FROM memories m WHERE m.tenant_id = p_tenant AND m.id = ANY (ARRAY (
                SELECT (e->>'memory_id')::uuid FROM jsonb_array_elements(p_batch->'edges') e)))) ORDER BY user_id
                    FOR KEY SHARE;
    END IF;
    IF p_keys IS NOT NULL THEN
        v_revs := claim_keys(p_tenant, p_keys);
        IF v_revs IS NOT NULL THEN RETURN v_revs; END IF;
    END IF;
    -- a batch usually has one user, who exists already
    SELECT EXISTS (SELECT 1 FROM tombstones WHERE tenant_id = p_tenant AND hash = ANY (p_tombstones)),
           EXISTS (SELECT 1 FROM users WHERE tenant_id = p_tenant AND user_id = p_batch->'users'->>0)
           INTO v_erased, v_known;
    IF p_batch ? 'waited' THEN  -- turns that a server kept meanwhile: their users may have been erased since
        SELECT v_erased OR EXISTS (
            SELECT 1 FROM jsonb_to_recordset(p_batch->'waited') AS w(hash bytea, said_at timestamptz)
            JOIN tombstones t ON t.tenant_id = p_tenant AND t.hash = w.hash AND t.created_at >= w.said_at)
                INTO v_erased;
    END IF;
    IF v_erased THEN RAISE EXCEPTION 'this text was erased' USING ERRCODE = 'MN410'; END IF;
    IF p_batch ? 'factless' AND EXISTS (SELECT 1 FROM facts WHERE tenant_id = p_tenant
        AND user_id = p_batch->>'factless'
                                                              AND removed_at IS NULL) THEN
        RAISE EXCEPTION 'this user has facts' USING ERRCODE = 'MN426';  -- the turn may take one of them back
    END IF;
    -- each statement runs only if the batch needs it: starting one costs as much as writing a row
    IF p_batch ? 'users' AND (NOT v_known OR jsonb_array_length(p_batch->'users') > 1) THEN
        PERFORM ensure_users(p_tenant, p_batch->'users');
    END IF;
    IF p_batch ? 'facts' THEN  -- before the threads: concurrent statements of a user become one sequence
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id IN (
            SELECT f->>'user_id' FROM jsonb_array_elements(p_batch->'facts') f) ORDER BY user_id FOR NO KEY UPDATE;
    END IF;
    IF p_batch ? 'updates' THEN v_images := change_memories(p_tenant, p_batch->'updates'); END IF;
    IF p_batch ? 'also' THEN p_batch := add_missing_thread_changes(p_tenant, p_batch, v_images); END IF;
    IF p_batch ? 'facts' AND p_batch->'history' = '[]' AND p_batch->'events' = '[]' THEN
        v_revs := '[]';
    ELSE
        v_revs := record_changes_{space}(p_tenant, p_batch, p_vector_ids, p_vectors, p_tokens, v_images);
    END IF;
    IF p_batch ? 'facts' THEN
        v_facts := apply_facts(p_tenant, p_batch->'facts');
        v_told := v_facts->'memories';
        v_facts := v_facts->'answers';
        IF v_told @? '$[*] ? (@.version > 1)' THEN  -- a new memory has no vector that could be wrong
            PERFORM put_vectors_{space}(p_tenant, '{}', '{}', '{}',
                ARRAY (SELECT (t->>'id')::uuid FROM jsonb_array_elements(v_told) t),
                         ARRAY (SELECT (t->>'id')::uuid FROM jsonb_array_elements(v_told) t
                             WHERE (t->>'retold')::boolean));
        END IF;
    END IF;
    IF v_images <> '{}' THEN
        PERFORM put_vectors_{space}(p_tenant, p_vector_ids, p_vectors, p_tokens,
            ARRAY (SELECT id::uuid FROM jsonb_object_keys(v_images) id),
                     '{}');
    END IF;
    IF p_batch ? 'edges' OR p_batch ? 'retold' THEN
        v_related := v_related || add_edges(p_tenant, coalesce(p_batch->'edges', '[]'),
                                            ARRAY (SELECT jsonb_array_elements_text(p_batch->'retold')));
    END IF;
    IF p_batch ? 'jobs' THEN
        INSERT INTO jobs (tenant_id, id, kind, user_id, payload)
            SELECT p_tenant, j.* FROM jsonb_to_recordset(p_batch->'jobs') AS j(id uuid, kind text, user_id text,
                payload jsonb)
            WHERE j.kind <> 'same_fact';
        IF p_batch @? '$.jobs[*].kind ? (@ == "same_fact")' THEN
            PERFORM queue_comparisons(p_tenant, p_batch->'jobs');
        END IF;
    END IF;
    IF p_keys IS NOT NULL THEN
        UPDATE idempotency_keys i SET response = k.response || jsonb_build_object(
                'related', coalesce((v_related->>k.memory_id)::int, 0),
                'revs', (SELECT jsonb_object_agg(r->>1, r->2) FROM jsonb_array_elements(v_revs) r
                         WHERE r->>0 = k.memory_id))
                || coalesce((  -- ids of facts and what was done with them, no values
                    SELECT jsonb_build_object('facts', jsonb_agg(jsonb_build_array(d#>'{fact,id}', d->'action')),
                                              'facts_rev', max((f->>'revision')::bigint))
                    FROM jsonb_array_elements(v_facts) f, jsonb_array_elements(f->'done') d
                    WHERE k.memory_id IS NULL OR f->>'turn' = k.memory_id HAVING count(*) > 0), '{}')
            FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, memory_id text, response jsonb)
            WHERE i.tenant_id = p_tenant AND i.key_id = k.key_id AND i.route = k.route AND i.key = k.key;
    END IF;
    RETURN jsonb_build_object('revs', v_revs, 'rows', v_images, 'related', v_related, 'facts', v_facts,
                              'fact_memories', jsonb_path_query_array(v_told, '$[*] ? (@.retold == true)'));
END $fn$;
GRANT EXECUTE ON FUNCTION apply_changes_{space} TO mnema_app;
