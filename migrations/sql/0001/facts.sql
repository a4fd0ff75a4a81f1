-- Facts: ranked lists and single values that users state. apply_facts is the only writer; apply_changes calls it, so
-- that a turn and its facts commit together. An older statement never overwrites a newer one, in whatever order they
-- arrive.

-- Return the key of a thread; facts without a thread are together. Rows are found by its equality, because no index
-- finds IS NOT DISTINCT FROM. It is CASE and not coalesce, which row-level security keeps out of an index's conditions.
CREATE FUNCTION thread_place(p_thread text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN p_thread IS NULL THEN '' ELSE p_thread END;
GRANT EXECUTE ON FUNCTION thread_place(text) TO mnema_app;

CREATE TABLE facts (
    tenant_id          uuid NOT NULL,
    id                 uuid NOT NULL,
    user_id            text NOT NULL,
    thread_id          text,
    topic_key          text NOT NULL CHECK (topic_key ~ '^[a-z0-9_]{1,100}$'),
    kind               text NOT NULL CHECK (kind IN ('ranked', 'single')),
    rank               integer,
    value              text NOT NULL CHECK (length(value) BETWEEN 1 AND 1000),
    value_key          text NOT NULL,                -- equal for spellings of one value
    category           text NOT NULL,                -- a key bound to agents needs it
    source_message_id  text,
    list_length        integer,                      -- of the last whole list that had this place; NULL: stated alone
    listed_at          timestamptz,                  -- when that list was stated
    created_at         timestamptz NOT NULL,         -- when the value, or its removal, was stated
    updated_at         timestamptz NOT NULL,         -- when the row changed
    doubted_at         timestamptz,                  -- a later message may take the value back; it answers no question
    -- the row stays, so that an older statement cannot bring the value back
    removed_at         timestamptz,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id),
    CHECK ((kind = 'ranked') = (rank IS NOT NULL)),
    CHECK (rank >= 1)
);
-- One fact for each rank. Facts without a thread, and single values without a rank, are equal too.
CREATE UNIQUE INDEX facts_place ON facts (tenant_id, user_id, topic_key, thread_place(thread_id), kind,
    rank) NULLS NOT DISTINCT;
CREATE INDEX facts_by_thread ON facts (tenant_id, user_id, thread_place(thread_id), created_at DESC)
    WHERE removed_at IS NULL;
-- The thread in which a topic was stated last.
CREATE INDEX facts_by_topic ON facts (tenant_id, user_id, topic_key, created_at DESC, updated_at DESC)
    WHERE removed_at IS NULL;
CREATE INDEX facts_purgeable ON facts (tenant_id, removed_at) WHERE removed_at IS NOT NULL;
GRANT SELECT, INSERT, DELETE ON facts TO mnema_app;
GRANT UPDATE (kind, rank, value, value_key, category, source_message_id, list_length, listed_at, created_at,
    updated_at, removed_at,
              doubted_at)
    ON facts TO mnema_app;

-- Refuse, at commit, a change of a fact without a history row of the same transaction. The time of a statement that
-- says the same again is no change.
CREATE FUNCTION refuse_silent_fact() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r facts := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    IF tg_op = 'UPDATE' AND (old.kind, old.rank, old.value, old.removed_at)
                            IS NOT DISTINCT FROM (new.kind, new.rank, new.value, new.removed_at) THEN
        RETURN NULL;
    END IF;
    PERFORM 1 FROM history h
      WHERE h.tenant_id = r.tenant_id AND h.memory_id = r.id::text AND h.stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fact % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER facts_tripwire AFTER INSERT OR UPDATE OR DELETE ON facts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_fact();

-- Return a fact as history keeps it and as the application reads it.
CREATE FUNCTION fact_json(r facts) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'topic_key', r.topic_key,
        'kind', r.kind, 'rank', r.rank, 'value', r.value, 'category', r.category,
        'source_message_id', r.source_message_id, 'created_at', r.created_at, 'updated_at', r.updated_at,
        'removed_at', r.removed_at);

-- Return a fact as one line of a delta: `favorite colors #2: green`.
CREATE FUNCTION fact_text(r facts) RETURNS text LANGUAGE sql STABLE
    RETURN replace(r.topic_key, '_', ' ') || coalesce(' #' || r.rank, '') || ': ' || r.value;

-- Return all facts of a topic that a statement is about, removed ones too.
CREATE FUNCTION facts_of_topic(p_tenant uuid, p_said jsonb, p_topic text) RETURNS SETOF facts LANGUAGE sql STABLE AS $$
SELECT * FROM facts f WHERE f.tenant_id = p_tenant AND f.user_id = p_said->>'user_id' AND f.topic_key = p_topic
    AND thread_place(f.thread_id) = thread_place(p_said->>'thread_id')
$$;

-- Store a change of a fact and return {action, before, after}. The change belongs to the statement p_said.
CREATE FUNCTION change_fact(p_said jsonb, p_action text, p_old facts, p_new facts) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    p_new.created_at := (p_said->>'stated_at')::timestamptz;
    p_new.updated_at := clock_timestamp();
    p_new.source_message_id := p_said->>'source_message_id';
    UPDATE facts f SET kind = p_new.kind, rank = p_new.rank, value = p_new.value, value_key = p_new.value_key,
            source_message_id = p_new.source_message_id, list_length = p_new.list_length, listed_at = p_new.listed_at,
            created_at = p_new.created_at, updated_at = p_new.updated_at, removed_at = p_new.removed_at,
            doubted_at = CASE WHEN p_action IS NULL THEN p_new.doubted_at END
        WHERE f.tenant_id = p_old.tenant_id AND f.id = p_old.id;
    RETURN jsonb_build_object('action', p_action, 'before', fact_json(p_old), 'after', fact_json(p_new),
                              'was', fact_text(p_old), 'now', fact_text(p_new));
END $$;

-- Put a value at a rank (NULL: the single value) unless a newer statement decided that place. p_entry is {value, key,
-- id}; the id is for a new row. Returns {action: store|update|null, before, after}; action null: nothing was counted.
CREATE FUNCTION put_fact(p_tenant uuid, p_said jsonb, p_topic text, p_rank int, p_entry jsonb, p_length int)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := p_said->>'stated_at';
    v_old facts;
    v_new facts;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = CASE WHEN p_rank IS NULL THEN 'single' ELSE 'ranked' END
            AND coalesce(f.rank, 0) = coalesce(p_rank, 0);
    IF v_old.id IS NULL OR v_old.removed_at IS NOT NULL THEN
        IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                   WHERE f.listed_at > v_at AND f.list_length < coalesce(p_rank, f.list_length + 1)
                      OR f.kind = 'single' AND f.removed_at IS NOT NULL AND f.created_at > v_at) THEN
            RETURN NULL;  -- a newer list has no such place, or the topic was removed later
        END IF;
    END IF;
    IF v_old.id IS NULL THEN
        INSERT INTO facts (tenant_id, id, user_id, thread_id, topic_key, kind, rank, value, value_key, category,
                           source_message_id, list_length, listed_at, created_at, updated_at)
            VALUES (p_tenant, (p_entry->>'id')::uuid, p_said->>'user_id', p_said->>'thread_id', p_topic,
                    CASE WHEN p_rank IS NULL THEN 'single' ELSE 'ranked' END, p_rank, p_entry->>'value',
                        p_entry->>'key',
                    p_said->>'category', p_said->>'source_message_id', p_length,
                    CASE WHEN p_length IS NOT NULL THEN v_at END, v_at, clock_timestamp())
            RETURNING * INTO v_new;
        RETURN jsonb_build_object('action', 'store', 'after', fact_json(v_new), 'now', fact_text(v_new));
    END IF;
    v_new := v_old;
    IF p_length IS NOT NULL AND (v_old.listed_at IS NULL OR v_old.listed_at <= v_at) THEN
        v_new.list_length := p_length;  -- also if the value is newer: an older list ends here too
        v_new.listed_at := v_at;
    END IF;
    IF v_old.created_at > v_at THEN
        UPDATE facts f SET list_length = v_new.list_length, listed_at = v_new.listed_at
            WHERE f.tenant_id = p_tenant AND f.id = v_old.id AND f.listed_at IS DISTINCT FROM v_new.listed_at;
        RETURN CASE WHEN v_old.removed_at IS NULL THEN jsonb_build_object('after', fact_json(v_old)) END;
    END IF;
    IF v_old.removed_at IS NULL AND v_old.value_key = p_entry->>'key' THEN  -- stated again: only the time is new
        UPDATE facts f SET created_at = v_at, list_length = v_new.list_length, listed_at = v_new.listed_at,
                doubted_at = NULL
            WHERE f.tenant_id = p_tenant AND f.id = v_old.id RETURNING * INTO v_new;
        RETURN jsonb_build_object('after', fact_json(v_new));
    END IF;
    v_new.value := p_entry->>'value';
    v_new.value_key := p_entry->>'key';
    v_new.removed_at := NULL;
    RETURN change_fact(p_said, CASE WHEN v_old.removed_at IS NULL THEN 'update' ELSE 'store' END, v_old, v_new);
END $$;

-- Make the single value of a topic rank 1, unless the statement is about rank 1: then the value goes. A value that was
-- stated later than p_said keeps its time, so that the statement cannot overwrite it.
CREATE FUNCTION rank_single(p_tenant uuid, p_said jsonb, p_topic text, p_replaced boolean) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_old facts;
    v_new facts;
    v_said jsonb;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.kind = 'single'
        AND f.removed_at IS NULL;
    IF v_old.id IS NULL THEN RETURN NULL; END IF;
    v_new := v_old;
    v_said := p_said || jsonb_build_object('stated_at', v_old.created_at, 'source_message_id', v_old.source_message_id);
    IF v_old.created_at <= (p_said->>'stated_at')::timestamptz
       AND (p_replaced OR EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.rank = 1)) THEN
        v_new.removed_at := clock_timestamp();
        RETURN change_fact(v_said, 'remove', v_old, v_new);  -- replaced, not taken back: it keeps its time
    END IF;
    IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.rank = 1) THEN RETURN NULL; END IF;
    v_new.kind := 'ranked';
    v_new.rank := 1;
    RETURN change_fact(v_said, NULL, v_old, v_new);
END $$;

-- Remove the facts of a topic that an operation names by rank or value, all of them if it names none. p_above: only
-- ranks above it. A fact that was stated later stays.
CREATE FUNCTION remove_facts(p_tenant uuid, p_said jsonb, p_topic text, p_operation jsonb, p_above int)
    RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_old facts;
    v_new facts;
BEGIN
    FOR v_old IN SELECT * FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.removed_at IS NULL AND f.created_at <= (p_said->>'stated_at')::timestamptz
          AND (p_above IS NULL OR f.rank > p_above)
          AND (p_operation->'ranks' = '[]' OR p_operation->'ranks' @> to_jsonb(f.rank))
          AND (p_operation->'entries' = '[]'
               OR f.value_key IN (SELECT e->>'key' FROM jsonb_array_elements(p_operation->'entries') e))
        ORDER BY f.rank
    LOOP
        v_new := v_old;
        v_new.removed_at := clock_timestamp();
        RETURN NEXT change_fact(p_said, 'remove', v_old, v_new);
    END LOOP;
END $$;

-- Put a value at a rank (NULL: after the last one) of the topic's list. Its old place closes first; the values from the
-- rank on, up to a gap, move down by one, and a value above max_rank goes. p_known: only if the list has the value. A
-- list of which a newer statement decided anything stays as it is.
CREATE FUNCTION insert_fact(p_tenant uuid, p_said jsonb, p_topic text, p_entry jsonb, p_known boolean)
    RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_at timestamptz := p_said->>'stated_at';
    v_from int;
    v_to int := (p_entry->>'rank')::int;
    v_free int;
    v_places jsonb;
    p jsonb;
BEGIN
    IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE greatest(f.created_at, f.listed_at) > v_at)
       OR p_known AND NOT EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                                  WHERE f.removed_at IS NULL AND f.value_key = p_entry->>'key') THEN
        RETURN;
    END IF;
    RETURN NEXT rank_single(p_tenant, p_said, p_topic, false);
    SELECT min(f.rank) INTO v_from FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL AND f.value_key = p_entry->>'key';
    -- the other values after the old place has closed: [{rank, value, key, id}]
    SELECT coalesce(jsonb_agg(jsonb_build_object('rank', f.rank - CASE WHEN f.rank > v_from THEN 1 ELSE 0 END,
        'was', f.rank,
                                                 'value', f.value, 'key', f.value_key, 'id', new_id())), '[]')
        INTO v_places FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL AND f.rank IS DISTINCT FROM v_from;
    v_to := coalesce(v_to, (SELECT coalesce(max((x->>'rank')::int), 0) + 1 FROM jsonb_array_elements(v_places) x));
    v_free := v_to;
    WHILE v_places @> jsonb_build_array(jsonb_build_object('rank', v_free)) LOOP
        v_free := v_free + 1;
    END LOOP;
    SELECT jsonb_agg(x ORDER BY (x->>'rank')::int) INTO v_places FROM (
        SELECT p_entry || jsonb_build_object('rank', v_to, 'was', v_from) AS x
        UNION ALL
        SELECT y || CASE WHEN (y->>'rank')::int >= v_to AND (y->>'rank')::int < v_free
                         THEN jsonb_build_object('rank', (y->>'rank')::int + 1) ELSE '{}' END
        FROM jsonb_array_elements(v_places) y) placed;
    FOR p IN SELECT x FROM jsonb_array_elements(v_places) x
             WHERE (x->>'rank')::int <= (p_said->>'max_rank')::int AND x->'rank' IS DISTINCT FROM x->'was' LOOP
        RETURN NEXT put_fact(p_tenant, p_said, p_topic, (p->>'rank')::int, p, NULL);
    END LOOP;
    RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic,
        jsonb_build_object('entries', '[]'::jsonb, 'ranks', (
        SELECT coalesce(jsonb_agg(f.rank), '[0]') FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.kind = 'ranked' AND f.removed_at IS NULL
          AND NOT v_places @> jsonb_build_array(jsonb_build_object('rank', f.rank)))), NULL);
END $$;

-- Give the place of the first of two entries to the second. A value that is in the list already has no second place.
-- Without a place to give, the second is stored as by `set` if its rank is 1.
CREATE FUNCTION replace_fact(p_tenant uuid, p_said jsonb, p_topic text, p_old jsonb, p_new jsonb)
    RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_old facts;
    v_rank int;
BEGIN
    SELECT * INTO v_old FROM facts_of_topic(p_tenant, p_said, p_topic) f
        WHERE f.removed_at IS NULL AND f.value_key = p_old->>'key' ORDER BY f.rank LIMIT 1;
    IF v_old.id IS NULL THEN
        SELECT min(1) INTO v_rank FROM facts_of_topic(p_tenant, p_said, p_topic) f
            WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
        IF (p_new->>'rank')::int = 1 THEN
            RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_rank, p_new, NULL);
        END IF;
    ELSIF p_new->>'key' <> p_old->>'key' AND EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
              WHERE f.removed_at IS NULL AND f.kind = v_old.kind AND f.value_key = p_new->>'key') THEN
        RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic,
                                                jsonb_build_object('ranks', '[]'::jsonb, 'entries',
                                                    jsonb_build_array(p_old)), NULL);
    ELSE
        RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_old.rank, p_new, NULL);
    END IF;
END $$;
-- Put in doubt the values of a topic that an operation names. A value that was stated later is in no doubt.
CREATE FUNCTION doubt_facts(p_tenant uuid, p_said jsonb, p_topic text, p_operation jsonb) RETURNS void
    LANGUAGE sql AS $$
UPDATE facts f SET doubted_at = (p_said->>'stated_at')::timestamptz
WHERE f.tenant_id = p_tenant AND f.removed_at IS NULL AND f.created_at <= (p_said->>'stated_at')::timestamptz
  AND f.id IN (SELECT t.id FROM facts_of_topic(p_tenant, p_said, p_topic) t)
  AND f.value_key IN (SELECT e->>'key' FROM jsonb_array_elements(p_operation->'entries') e)
$$;

-- Apply one operation (domain/facts/fact.py: FactOperation) and return what it did, one row a fact.
CREATE FUNCTION apply_fact_operation(p_tenant uuid, p_said jsonb, p_topic text, o jsonb) RETURNS SETOF jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    e jsonb;
    v_rank int;
    v_two facts[];
BEGIN
    IF o->>'op' = 'retell' THEN
        RETURN;  -- the facts stay; apply_facts writes the topic's memory anew
    ELSIF o->>'op' = 'remove' THEN
        RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic, o, NULL);
    ELSIF o->>'op' = 'doubt' THEN
        PERFORM doubt_facts(p_tenant, p_said, p_topic, o);
    ELSIF o->>'op' = 'swap' THEN
        v_two := ARRAY (SELECT f FROM facts_of_topic(p_tenant, p_said, p_topic) f
                        WHERE f.removed_at IS NULL AND o->'ranks' @> to_jsonb(f.rank) ORDER BY f.rank);
        IF cardinality(v_two) = 2 AND greatest(v_two[1].created_at,
            v_two[2].created_at) <= (p_said->>'stated_at')::timestamptz THEN
            FOR i IN 1 .. 2 LOOP
                RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_two[i].rank,
                    jsonb_build_object('value', v_two[3 - i].value, 'key', v_two[3 - i].value_key), NULL);
            END LOOP;
        END IF;
    ELSIF o->>'op' IN ('insert', 'move') THEN
        RETURN QUERY SELECT * FROM insert_fact(p_tenant, p_said, p_topic, o->'entries'->0, o->>'op' = 'move');
    ELSIF o->>'op' = 'replace' THEN
        RETURN QUERY SELECT * FROM replace_fact(p_tenant, p_said, p_topic, o->'entries'->0, o->'entries'->1);
    ELSIF o->>'op' = 'append' THEN
        IF EXISTS (SELECT FROM facts_of_topic(p_tenant, p_said, p_topic) f
                   WHERE f.listed_at > (p_said->>'stated_at')::timestamptz) THEN
            RETURN;  -- a newer list replaced the one that this statement adds to
        END IF;
        RETURN NEXT rank_single(p_tenant, p_said, p_topic, false);
        FOR e IN SELECT * FROM jsonb_array_elements(o->'entries') LOOP
            SELECT CASE WHEN bool_or(f.value_key = e->>'key') THEN NULL ELSE coalesce(max(f.rank), 0) + 1
                END INTO v_rank
                FROM facts_of_topic(p_tenant, p_said, p_topic) f WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
            IF v_rank <= (p_said->>'max_rank')::int THEN
                RETURN NEXT put_fact(p_tenant, p_said, p_topic, v_rank, e, NULL);
            END IF;
        END LOOP;
    ELSE  -- put, list, set; a value without a rank is rank 1 of a list
        SELECT min(1) INTO v_rank FROM facts_of_topic(p_tenant, p_said, p_topic) f
            WHERE f.kind = 'ranked' AND f.removed_at IS NULL;
        IF o @? '$.entries[*].rank ? (@ != null)' THEN
            RETURN NEXT rank_single(p_tenant, p_said, p_topic, o @? '$.entries[*].rank ? (@ == 1)');
        END IF;
        FOR e IN SELECT * FROM jsonb_array_elements(o->'entries') LOOP
            RETURN NEXT put_fact(p_tenant, p_said, p_topic, coalesce((e->>'rank')::int, v_rank), e,
                                 CASE o->>'op' WHEN 'list' THEN jsonb_array_length(o->'entries') END);
        END LOOP;
        IF o->>'op' = 'list' THEN
            RETURN QUERY SELECT * FROM remove_facts(p_tenant, p_said, p_topic, '{"ranks": [], "entries": []}',
                                                    jsonb_array_length(o->'entries'));
        END IF;
    END IF;
END $$;

-- Record what a statement did: history, events and the delta of its thread. Returns the thread's new revision.
CREATE FUNCTION record_facts(p_tenant uuid, p_said jsonb, p_done jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_rev bigint;
BEGIN
    WITH changed AS MATERIALIZED (
        SELECT d.*, d.place AS n, d.after->>'id' AS id,
               CASE WHEN d.before->>'removed_at' IS NOT NULL THEN 'soft_deleted' WHEN d.before IS NOT NULL
                   THEN 'active' END AS state
        FROM ROWS FROM (jsonb_to_recordset(p_done) AS (action text, before jsonb, after jsonb, was text, now text))
            WITH ORDINALITY AS d(action, before, after, was, now, place)
        WHERE d.now IS NOT NULL),
    named AS (
        SELECT c.*, CASE WHEN c.before IS NULL THEN 'created' WHEN c.action = 'remove' THEN 'soft_deleted'
                         WHEN c.state = 'soft_deleted' THEN 'restored' ELSE 'updated' END AS event FROM changed c),
    kept AS (
        INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
            SELECT p_tenant, gen_random_uuid(), c.id,
                   CASE c.event WHEN 'created' THEN 'ADD' WHEN 'soft_deleted' THEN 'DELETE' WHEN 'restored'
                       THEN 'RESTORE'
                                ELSE 'UPDATE' END,
                   p_said->>'actor', jsonb_strip_nulls(jsonb_build_object('before', c.before, 'after', c.after)),
                   clock_timestamp() FROM named c),
    noted AS (
        INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category)
            SELECT p_tenant, new_id(), p_said->>'user_id', p_said->>'thread_id', 'hotpath', 'fact_' || c.action,
                   'ok', c.id, p_said->>'category' FROM named c WHERE c.action IS NOT NULL),
    thread AS (
        INSERT INTO thread_revision AS t (tenant_id, thread_id, rev)
            SELECT p_tenant, p_said->>'thread_id', count(*) FROM changed
                WHERE p_said->>'thread_id' IS NOT NULL HAVING count(*) > 0
            ON CONFLICT (tenant_id, thread_id) DO UPDATE SET rev = t.rev + excluded.rev RETURNING rev),
    told AS (
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before,
            category_after, meta, ts,
                                user_pk, type, state_before)
            SELECT p_tenant, gen_random_uuid(), p_said->>'thread_id',
                   t.rev - count(*) OVER () + row_number() OVER (ORDER BY c.n), c.id, c.event,
                   CASE WHEN c.before IS NOT NULL THEN p_said->>'category' END, p_said->>'category',
                   jsonb_build_object('text', left(c.now, 300), 'importance', 2, 'was', md5(c.was)
                       || ':2', 'now', md5(c.now) || ':2'),
                   clock_timestamp(), (SELECT user_pk_of(p_tenant, p_said->>'user_id')), 'fact', c.state
            FROM named c CROSS JOIN thread t)
    SELECT t.rev INTO v_rev FROM thread t;
    RETURN v_rev;
END $$;

-- Return the facts of a topic that its memory tells, by rank: those of the thread in which the user stated the topic
-- last, in the form (list or single value) and the category of the latest one. A value in doubt is not told.
CREATE FUNCTION told_facts(p_tenant uuid, p_user text, p_topic text) RETURNS SETOF facts LANGUAGE plpgsql STABLE
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_latest facts;
BEGIN
    -- two small statements: as one join, the planner reads the topic's facts of all threads
    SELECT f.* INTO v_latest FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic AND f.removed_at IS NULL
          AND f.doubted_at IS NULL
        ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1;
    RETURN QUERY SELECT f.* FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic AND f.removed_at IS NULL
          AND f.doubted_at IS NULL
          AND thread_place(f.thread_id) = thread_place(v_latest.thread_id) AND f.kind = v_latest.kind
          AND f.category = v_latest.category ORDER BY f.rank;
END $$;

-- Return the text of the memory that tells facts, such as "The user's favorite colors, in order: red, white, blue.".
-- p_one and p_many name the topic in singular and plural. Ranks with gaps are named: "…: 2) teal, 4) red.". Values that
-- would make a text of more than 2,000 characters are counted, not told.
CREATE FUNCTION fact_memory_text(p_one text, p_many text, p_facts facts[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_in_order boolean := p_facts[cardinality(p_facts)].rank = cardinality(p_facts);
    v_text text;
    v_more text;
BEGIN
    IF cardinality(p_facts) = 1 AND coalesce(p_facts[1].rank, 1) = 1 THEN
        v_text := format('The user''s %s is %s', p_one, p_facts[1].value);
    ELSE
        v_text := format('The user''s %s%s: ', p_many, CASE WHEN v_in_order THEN ', in order' ELSE '' END);
        FOR i IN 1 .. cardinality(p_facts) LOOP
            v_more := CASE WHEN i > 1 THEN ', ' ELSE '' END
                      || CASE WHEN v_in_order THEN '' ELSE p_facts[i].rank || ') ' END || p_facts[i].value;
            IF i > 1 AND length(v_text) + length(v_more) > 2000 THEN
                v_text := v_text || format(' and %s more', cardinality(p_facts) - i + 1);
                EXIT;
            END IF;
            v_text := v_text || v_more;
        END LOOP;
    END IF;
    RETURN v_text || CASE WHEN right(v_text, 1) IN ('.', '!', '?') THEN '' ELSE '.' END;
END $$;

-- Write the memory of a topic anew from its facts: make, change, restore or soft-delete it, with its history. p_by has
-- the actor, and the topic's names `one` and `many` (null: those that the memory has). The delta tells the facts
-- themselves, so the memory is no bullet. A soft-deleted memory goes with the facts that it told: purge_facts purges
-- it. Returns {id, version, text, retold: its text is new}, NULL if nothing changed.
CREATE FUNCTION write_fact_memory(p_tenant uuid, p_user text, p_topic text, p_by jsonb) RETURNS jsonb
    LANGUAGE plpgsql AS $$
DECLARE
    v_facts facts[] := ARRAY (SELECT f FROM told_facts(p_tenant, p_user, p_topic) f);
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_source jsonb;
    v_text text;
    v_at timestamptz;
    v_event text;
    v_old memories;
    v_new memories;
    v_set jsonb;
BEGIN
    SELECT * INTO v_old FROM memories m
        WHERE m.tenant_id = p_tenant AND m.user_pk = v_pk AND m.fact_topic = p_topic FOR UPDATE;
    IF v_pk IS NULL OR v_facts = '{}' AND v_old.state IS DISTINCT FROM 'active' THEN RETURN NULL; END IF;
    IF v_facts = '{}' THEN
        v_event := 'DELETE';
        v_set := jsonb_build_object('state', 'soft_deleted');
    ELSE
        v_source := jsonb_build_object('topic_key', p_topic,
            'one', coalesce(p_by->>'one', v_old.source->>'one', replace(p_topic, '_', ' ')),
            'many', coalesce(p_by->>'many', v_old.source->>'many', replace(p_topic, '_', ' ')));
        v_text := fact_memory_text(v_source->>'one', v_source->>'many', v_facts);
        IF (v_old.text, v_old.category, v_old.state) IS NOT DISTINCT FROM (v_text, v_facts[1].category, 'active') THEN
            RETURN NULL;
        END IF;
        SELECT max(f.created_at) INTO v_at FROM unnest(v_facts) f;
        v_event := CASE WHEN v_old.id IS NULL THEN 'ADD' WHEN v_old.state = 'active' THEN 'UPDATE' ELSE 'RESTORE' END;
        v_set := jsonb_build_object('text', v_text, 'category', v_facts[1].category, 'state', 'active',
            'purge_at', NULL,
            'source', v_source, 'created_at', v_at,
            -- never the key of a memory that a user writes: those are of texts in lower case on one line
            'text_hash', sha256(convert_to(E'FACT
' || p_topic || E'
' || v_text, 'UTF8')));
    END IF;
    v_set := v_set || jsonb_build_object('updated_at', clock_timestamp());
    IF v_old.id IS NULL THEN
        v_new := jsonb_populate_record(NULL::memories, v_set);
        INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance,
            pinned, tags, state,
                              source, metadata, version, created_at, updated_at, fact_topic)
            VALUES (p_tenant, new_id(), v_pk, p_user, 'semantic', v_new.category, v_new.text, v_new.text_hash,
                3, false, '{}',
                    'active', v_source, '{}', 1, v_at, v_new.updated_at, p_topic)
            RETURNING * INTO v_new;
    ELSE
        v_new := update_memory(v_old, jsonb_build_object('set', v_set));
    END IF;
    INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
        VALUES (p_tenant, gen_random_uuid(), v_new.id::text, v_event, p_by->>'actor',
                CASE WHEN v_old.id IS NULL THEN '{}' ELSE jsonb_build_object('before', memory_json(v_old)) END
                || jsonb_build_object('after', memory_json(v_new)), clock_timestamp());
    RETURN jsonb_build_object('id', v_new.id, 'version', v_new.version, 'text', v_new.text,
                              'retold', v_old.text IS DISTINCT FROM v_new.text);
END $$;

-- Purge the texts that memories of facts have from purged facts, given as [user, topic]: their older history, and the
-- memory itself if no fact is left.
CREATE FUNCTION purge_fact_memories(p_tenant uuid, p_topics text[][], p_actor text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_topic text[];
    v_memory memories;
BEGIN
    FOREACH v_topic SLICE 1 IN ARRAY p_topics LOOP
        SELECT * INTO v_memory FROM memories m WHERE m.tenant_id = p_tenant
            AND m.user_pk = user_pk_of(p_tenant, v_topic[1])
            AND m.fact_topic = v_topic[2] FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        PERFORM blank_history(p_tenant, ARRAY[v_memory.id::text]);
        IF v_memory.state = 'soft_deleted' THEN
            PERFORM purge_memory(v_memory);
            INSERT INTO history (tenant_id, id, memory_id, event, actor)
                VALUES (p_tenant, gen_random_uuid(), v_memory.id::text, 'PURGE', p_actor);
        END IF;
    END LOOP;
END $$;

-- Apply statements [{user_id, thread_id, category, actor, source_message_id, turn, stated_at, max_rank, names:
-- {topic_key: {one, many}}, operations: [{op, topic_key, entries: [{rank, value, key, id}], ranks}]}]. Returns
-- {answers, memories}: one answer {turn, revision, done: [{action, fact}]} a statement, where `turn` is the memory with
-- the statement's text, if there is one; and what write_fact_memory returns of each topic that was stated.
-- The caller holds the locks of the users' rows, so that concurrent statements of a user are one sequence.
CREATE FUNCTION apply_facts(p_tenant uuid, p_statements jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_answers jsonb := '[]';
    v_done jsonb;
    v_some jsonb;
    v_topic text;
    v_rev bigint;
    v_topics jsonb := '{}';
    v_memories jsonb;
    s jsonb;
    o jsonb;
BEGIN
    FOR s IN SELECT value FROM jsonb_array_elements(p_statements) LOOP
        v_done := '[]';
        FOR o IN SELECT value FROM jsonb_array_elements(s->'operations') LOOP
            v_topic := coalesce(o->>'topic_key', last_topic(p_tenant, s->>'user_id', s->>'thread_id', NULL));
            CONTINUE WHEN v_topic IS NULL;
            v_topics := v_topics || jsonb_build_object(jsonb_build_array(s->>'user_id', v_topic)::text,
                jsonb_build_object('actor', s->'actor') || coalesce(s->'names'->v_topic, '{}'));
            SELECT jsonb_agg(d) INTO v_some FROM apply_fact_operation(p_tenant, s, v_topic, o) d WHERE d IS NOT NULL;
            v_done := v_done || coalesce(v_some, '[]');
        END LOOP;
        v_rev := record_facts(p_tenant, s, v_done);
        SELECT v_answers || jsonb_build_object('turn', s->'turn', 'revision', v_rev, 'done', coalesce(jsonb_agg(
                jsonb_build_object('action', d->>'action', 'fact', d->'after') ORDER BY n), '[]'))
            INTO v_answers FROM jsonb_array_elements(v_done) WITH ORDINALITY x(d, n);
    END LOOP;
    -- once a topic, after all statements, and in order
    SELECT jsonb_agg(m) INTO v_memories FROM (
        SELECT write_fact_memory(p_tenant, t.key::jsonb->>0, t.key::jsonb->>1, t.value) AS m
        FROM jsonb_each(v_topics) t ORDER BY t.key) w WHERE m IS NOT NULL;
    RETURN jsonb_build_object('answers', v_answers, 'memories', coalesce(v_memories, '[]'));
END $$;

-- Return the topic that a user stated last in a thread, in categories that the caller may see (NULL: all).
CREATE FUNCTION last_topic(p_tenant uuid, p_user text, p_thread text, p_categories text[]) RETURNS text
    LANGUAGE sql STABLE AS $$
SELECT f.topic_key FROM facts f
WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.removed_at IS NULL
  AND thread_place(f.thread_id) = thread_place(p_thread)
  AND (p_categories IS NULL OR f.category = ANY (p_categories))
ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1
$$;

-- Return the facts of a topic in a thread by rank, in categories that the caller may see (NULL: all).
CREATE FUNCTION known_facts(p_tenant uuid, p_user text, p_thread text, p_topic text, p_categories text[])
    RETURNS SETOF facts LANGUAGE sql STABLE AS $$
SELECT * FROM facts f WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic
    AND thread_place(f.thread_id) = thread_place(p_thread) AND f.removed_at IS NULL
    AND (p_categories IS NULL OR f.category = ANY (p_categories))
ORDER BY f.rank NULLS FIRST
$$;

-- Return the facts that answer a question, each topic's together and by rank: of this thread, else (p_across) of the
-- user's other thread in which the topic was stated last. A NULL in p_topics is the topic stated last in this thread;
-- `place` is the place of the topic in p_topics.
CREATE FUNCTION answer_facts(p_tenant uuid, p_user text, p_thread text, p_topics text[], p_across boolean,
    p_categories text[])
    RETURNS TABLE (place int, fact facts)
    LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tenant text := set_config('app.tenant_id', p_tenant::text, true);
    v_topic text;
    v_other text;
BEGIN
    -- one small statement after the other: as one join, the planner reads all facts of the user
    FOR v_place IN 1 .. cardinality(p_topics) LOOP
        v_topic := coalesce(p_topics[v_place], last_topic(p_tenant, p_user, p_thread, p_categories));
        RETURN QUERY SELECT v_place, f FROM known_facts(p_tenant, p_user, p_thread, v_topic, p_categories) f;
        CONTINUE WHEN FOUND OR NOT p_across;
        SELECT f.thread_id INTO v_other FROM facts f
            WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = v_topic AND f.removed_at IS NULL
              AND (p_categories IS NULL OR f.category = ANY (p_categories))
            ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY SELECT v_place, f FROM known_facts(p_tenant, p_user, v_other, v_topic, p_categories) f;
    END LOOP;
END $$;

-- Return at most p_limit facts that a message in a thread may take back: of the thread, then (p_across) of the user's
-- other threads, the newest first, in categories that the caller may see (NULL: all). `latest`: the last statement of
-- the thread made the fact, and no turn of the user came after it.
CREATE FUNCTION touchable_facts(p_tenant uuid, p_user text, p_thread text, p_across boolean,
    p_categories text[], p_limit int)
    RETURNS TABLE (thread_id text, topic_key text, rank int, value text, latest boolean)
    LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tenant text := set_config('app.tenant_id', p_tenant::text, true);
    v_stated timestamptz;
    v_said timestamptz;
    v_count int;
BEGIN
    SELECT f.created_at INTO v_stated FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) = thread_place(p_thread)
          AND f.removed_at IS NULL ORDER BY f.created_at DESC LIMIT 1;
    IF v_stated IS NOT NULL AND p_thread IS NOT NULL THEN
        SELECT m.created_at INTO v_said FROM memories m  -- the bound in time keeps the scan short
            WHERE m.tenant_id = p_tenant AND m.user_pk = user_pk_of(p_tenant, p_user) AND m.created_at > v_stated
              AND m.thread_id = p_thread AND m.type = 'turn' AND m.role = 'user' AND m.state = 'active' LIMIT 1;
    END IF;
    RETURN QUERY SELECT f.thread_id, f.topic_key, f.rank, f.value, v_said IS NULL
        AND f.created_at = v_stated FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) = thread_place(p_thread)
          AND f.removed_at IS NULL AND (p_categories IS NULL OR f.category = ANY (p_categories))
        ORDER BY f.created_at DESC, f.rank LIMIT p_limit;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF NOT p_across OR v_count >= p_limit THEN RETURN; END IF;
    RETURN QUERY SELECT f.thread_id, f.topic_key, f.rank, f.value, false FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) <> thread_place(p_thread)
          AND f.removed_at IS NULL AND (p_categories IS NULL OR f.category = ANY (p_categories))
        ORDER BY f.created_at DESC, f.rank LIMIT p_limit - v_count;
END $$;

-- Delete removed facts for good, with their values in history and in the change log: the fact p_id, else (NULL) the
-- p_limit facts that were removed first, before p_before. Returns their number; with p_dry_run, the number of all that
-- would go.
CREATE FUNCTION purge_facts(p_tenant uuid, p_id uuid, p_before timestamptz, p_limit int, p_actor text,
    p_dry_run boolean)
    RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_ids uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY (SELECT id FROM facts WHERE tenant_id = p_tenant AND (p_id IS NULL OR id = p_id)
        AND removed_at < p_before
                    ORDER BY removed_at LIMIT CASE WHEN NOT p_dry_run THEN p_limit END);
    IF p_dry_run THEN RETURN cardinality(v_ids); END IF;
    PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id IN (
        SELECT user_id FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids)) ORDER BY user_id FOR NO KEY UPDATE;
    -- a statement may have stored one again meanwhile
    v_ids := ARRAY (SELECT id FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids) AND removed_at < p_before);
    PERFORM blank_history(p_tenant, v_ids::text[]);
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids::text[]);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i::text, 'PURGE', p_actor FROM unnest(v_ids) i;
    PERFORM purge_fact_memories(p_tenant, array_agg(ARRAY[f.user_id, f.topic_key]), p_actor) FROM (
        SELECT DISTINCT user_id, topic_key FROM facts WHERE tenant_id = p_tenant
            AND id = ANY (v_ids)) f HAVING count(*) > 0;
    DELETE FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids);
    RETURN cardinality(v_ids);
END $$;
GRANT EXECUTE ON FUNCTION purge_facts(uuid, uuid, timestamptz, int, text, boolean) TO mnema_app;
GRANT EXECUTE ON FUNCTION fact_json(facts), fact_text(facts), facts_of_topic(uuid, jsonb, text),
    change_fact(jsonb, text, facts, facts), put_fact(uuid, jsonb, text, int, jsonb, int),
    rank_single(uuid, jsonb, text, boolean), remove_facts(uuid, jsonb, text, jsonb, int),
    insert_fact(uuid, jsonb, text, jsonb, boolean), replace_fact(uuid, jsonb, text, jsonb, jsonb),
    doubt_facts(uuid, jsonb, text, jsonb), touchable_facts(uuid, text, text, boolean, text[], int),
    apply_fact_operation(uuid, jsonb, text, jsonb), record_facts(uuid, jsonb, jsonb), apply_facts(uuid, jsonb),
    told_facts(uuid, text, text), fact_memory_text(text, text, facts[]), write_fact_memory(uuid, text, text, jsonb),
    purge_fact_memories(uuid, text[][], text),
    last_topic(uuid, text, text, text[]), known_facts(uuid, text, text, text, text[]),
    answer_facts(uuid, text, text, text[], boolean, text[]) TO mnema_app;
