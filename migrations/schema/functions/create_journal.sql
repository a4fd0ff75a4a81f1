CREATE OR REPLACE FUNCTION public.create_journal(p_name text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE fill_places($ddl$
-- Insert new memories with their relations, and be the only writer of history, change_log, thread_revision and events.
-- Return the revision of each change in each thread.
-- The parts of its statement look each other up row by row, without joins: to start hash joins costs 5 % of a call with
-- one memory; with 16 they make no difference, with 256 they would save an eighth.
CREATE OR REPLACE FUNCTION record_changes_{space}(
    p_tenant uuid, p_batch jsonb, p_vector_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_images jsonb)
    RETURNS jsonb LANGUAGE plpgsql AS $fn$
DECLARE
    v_revs jsonb;
BEGIN
    -- Threads are locked first and in order, so that two transactions cannot deadlock. The row lock makes the order of
    -- revisions the order of commits.
    WITH threads AS MATERIALIZED (
        INSERT INTO thread_revision AS t (tenant_id, thread_id, rev)
            SELECT p_tenant, n.key, n.value::bigint FROM jsonb_each_text(p_batch->'threads') n ORDER BY n.key
            ON CONFLICT (tenant_id, thread_id) DO UPDATE SET rev = t.rev + excluded.rev
            RETURNING thread_id, rev),
    fresh AS (
        INSERT INTO memories AS m (tenant_id, id, user_pk, user_id, thread_id, seq, agent_id, run_id,
            actor_id, role, type,
                category, text, steps_text, text_hash, importance, pinned, tags, state, source, metadata, version,
                created_at, updated_at, expires_at, language, valid_from, valid_to, origin)
            -- 0: the user was erased meanwhile, so the foreign key fails
            SELECT p_tenant, r.id,
                coalesce((SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant AND u.user_id = r.user_id), 0),
                r.user_id, r.thread_id, r.seq, r.agent_id, r.run_id, r.actor_id, r.role, r.type, r.category, r.text,
                r.steps_text, r.text_hash, r.importance, r.pinned, r.tags, 'active', r.source, r.metadata, 1,
                    r.created_at,
                r.updated_at, r.expires_at, r.language, r.valid_from, r.valid_to, r.origin
            FROM jsonb_to_recordset(p_batch->'memories') AS r(id uuid, user_id text, thread_id text, seq bigint,
                agent_id text,
                run_id text, actor_id text, role text, type text, category text, text text, steps_text text,
                    text_hash bytea,
                importance smallint, pinned boolean, tags text[], source jsonb, metadata jsonb, created_at timestamptz,
                updated_at timestamptz, expires_at timestamptz, language text, valid_from timestamptz,
                valid_to timestamptz, origin text)
            WHERE (SELECT count(*) FROM threads) >= 0  -- after the threads are locked
            RETURNING m.id, m.user_pk, m.type, m.category, m.thread_id,
                jsonb_build_object('after', memory_json(m)) AS image),
    embedded AS (
        INSERT INTO vec_{space} (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
            SELECT p_tenant, f.user_pk, f.id, f.type, f.category, 'active', thread_key(f.thread_id), p_vectors[f.place],
                   p_tokens[f.place]
            FROM (SELECT *, array_position(p_vector_ids, id) AS place FROM fresh OFFSET 0) f  -- OFFSET 0: searched once
            WHERE f.place IS NOT NULL),
    noted AS (
        INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim)
            SELECT p_tenant, e.* FROM jsonb_to_recordset(p_batch->'events') AS e(id uuid, user_id text, thread_id text,
                node text, op text, status text, memory_id text, category text, sim real)),
    kept AS (
        INSERT INTO history (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts)
            SELECT p_tenant, h.id, h.memory_id::text, h.event, h.old_ref, h.new_ref, h.actor,
                   CASE WHEN h.event IN ('PURGE', 'LINK') THEN '{}'
                        ELSE coalesce((SELECT f.image FROM fresh f WHERE f.id = h.memory_id LIMIT 1),
                                      p_images->h.memory_id::text) END
                   || coalesce(h.meta, '{}'),
                   clock_timestamp()
            FROM jsonb_to_recordset(p_batch->'history') AS h(id uuid, memory_id uuid, event text, old_ref text,
                new_ref text,
                actor text, meta jsonb)),
    linked AS (
        INSERT INTO relations (tenant_id, id, from_id, to_id, strength)
            SELECT p_tenant, r.id, r.from_id,
                CASE WHEN r.other IS NULL OR (SELECT true FROM memories o WHERE o.tenant_id = p_tenant
                    AND o.id = r.other LIMIT 1)
                     THEN r.to_id ELSE purged_meanwhile() END, r.strength
            FROM jsonb_to_recordset(p_batch->'relations') AS r(id uuid, from_id text, to_id text, strength real,
                other uuid)),
    told AS (
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before,
            category_after, meta, ts,
                user_pk, type, state_before)
            SELECT p_tenant, d.id, d.thread_id, (SELECT t.rev FROM threads t WHERE t.thread_id = d.thread_id) - d.back,
                   d.memory_id::text, d.event, i.before->>'category', coalesce(f.category, i.after->>'category'),
                   -- the current text and importance: the caller may have composed the change from an older version
                   CASE WHEN i.after IS NULL THEN '{}' ELSE jsonb_build_object(
                        'text', left(i.after->>'text', 300), 'importance', i.after->'importance',
                        'was', content_key(i.before), 'now', content_key(i.after)) END
                   || coalesce(d.meta, '{}'),
                   clock_timestamp(),
                   coalesce(f.user_pk, (SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant
                                                                        AND u.user_id = i.before->>'user_id')),
                   coalesce(f.type, i.before->>'type'), i.before->>'state'
            FROM jsonb_to_recordset(p_batch->'delta') AS d(id uuid, memory_id uuid, thread_id text,
                back bigint, event text,
                meta jsonb)
            LEFT JOIN LATERAL (SELECT * FROM fresh f WHERE f.id = d.memory_id LIMIT 1) f ON true
            CROSS JOIN LATERAL (SELECT p_images#>ARRAY[d.memory_id::text, 'before'] AS before,
                                       p_images#>ARRAY[d.memory_id::text, 'after'] AS after OFFSET 0) i
            RETURNING memory_id, thread_id, rev)
    SELECT jsonb_agg(jsonb_build_array(memory_id, thread_id, rev)) INTO v_revs FROM told;
    RETURN coalesce(v_revs, '[]');
END $fn$;
GRANT EXECUTE ON FUNCTION record_changes_{space} TO mnema_app;

COMMENT ON FUNCTION record_changes_{space} IS 'Insert new memories with their relations, and be the only writer of history, change_log, thread_revision and events.
Return the revision of each change in each thread.
The parts of its statement look each other up row by row, without joins: to start hash joins costs 5 % of a call with
one memory; with 16 they make no difference, with 256 they would save an eighth.';
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
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

COMMENT ON FUNCTION apply_changes_{space} IS 'Apply a batch of changes in one transaction: locks, keys, users, changed memories, new ones, facts, vectors and jobs.';
    $ddl$, jsonb_build_object('space', p_name));
END $function$;
COMMENT ON FUNCTION create_journal(text) IS 'Make record_changes_<space> and apply_changes_<space>.';
