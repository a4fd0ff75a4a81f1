-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.record_changes_minilm_l6_v2(p_tenant uuid, p_batch jsonb, p_vector_ids uuid[], p_vectors halfvec[], p_tokens bytea[], p_images jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
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
        INSERT INTO vec_minilm_l6_v2 (tenant_id, user_pk, memory_id, type, category, state, thread_key, embedding, tokens)
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
END $function$;
COMMENT ON FUNCTION record_changes_minilm_l6_v2(uuid,jsonb,uuid[],halfvec[],bytea[],jsonb) IS 'Insert new memories with their relations, and be the only writer of history, change_log, thread_revision and events.
Return the revision of each change in each thread.
The parts of its statement look each other up row by row, without joins: to start hash joins costs 5 % of a call with
one memory; with 16 they make no difference, with 256 they would save an eighth.';
