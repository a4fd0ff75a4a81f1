-- Turn memory: the index rows of artifacts, and the ledger of their blobs. A row with a blob refers to the ledger, so
-- that no row is ever without its blob: a blob is entered in the ledger, stored, and only then referred to. A blob that
-- no row refers to leaves the ledger first, so that no row can refer to it any more; then its content is deleted.

CREATE TABLE blobs (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    uri         text NOT NULL CHECK (length(uri) BETWEEN 1 AND 2048),
    -- the blob goes when this user is erased, also if no artifact refers to it
    user_id     text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, uri)
);
CREATE INDEX blobs_by_age ON blobs (tenant_id, created_at);
CREATE INDEX blobs_of_user ON blobs (tenant_id, user_id);
GRANT SELECT, INSERT, DELETE, UPDATE (created_at) ON blobs TO mnema_app;  -- UPDATE: to lock a row

-- The contents of blobs that PostgreSQL keeps.
CREATE TABLE blob_contents (
    tenant_id  uuid NOT NULL,
    uri        text NOT NULL,
    content    bytea NOT NULL,
    PRIMARY KEY (tenant_id, uri),
    FOREIGN KEY (tenant_id, uri) REFERENCES blobs (tenant_id, uri) ON DELETE CASCADE
);
GRANT SELECT, INSERT, DELETE ON blob_contents TO mnema_app;

-- Blobs outside PostgreSQL that have left the ledger. Each is deleted twice, at once and after a while, because a
-- writer may have been about to store it.
CREATE TABLE swept_blobs (
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    uri        text NOT NULL,
    swept_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted    boolean NOT NULL DEFAULT false,   -- once
    PRIMARY KEY (tenant_id, uri)
);
GRANT SELECT, INSERT, DELETE, UPDATE (deleted) ON swept_blobs TO mnema_app;

-- Enter a blob in the ledger before it is stored.
CREATE FUNCTION enter_blob(p_tenant uuid, p_user text, p_uri text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    INSERT INTO blobs (tenant_id, user_id, uri) VALUES (p_tenant, p_user, p_uri);
END $$;

-- Store the content of a blob that is in the ledger. A stored content stays.
CREATE FUNCTION put_blob_content(p_tenant uuid, p_uri text, p_content bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    INSERT INTO blob_contents (tenant_id, uri, content) VALUES (p_tenant, p_uri, p_content) ON CONFLICT DO NOTHING;
END $$;

CREATE TABLE conv_messages (
    tenant_id        uuid NOT NULL,
    id               uuid NOT NULL,
    user_id          text NOT NULL,
    conversation_id  text NOT NULL,
    turn_id          text,                       -- NULL: the artifact belongs to the conversation
    track_id         text,
    kind             text NOT NULL CHECK (kind IN (
        'artifact:turn.log', 'artifact:turn.fingerprint.v1', 'artifact:turn.log.reaction', 'conversation.active_set.v1',
        'conversation.memory.bucket.v1', 'conv.start')),
    place            text NOT NULL,              -- one artifact of a kind has a place in a conversation
    text             text NOT NULL,              -- the index JSON
    tags             text[] NOT NULL,
    hosted_uri       text,
    version          bigint NOT NULL DEFAULT 1,
    reconciled_version  bigint,                  -- of a fingerprint: the version that the buckets have
    made_at          timestamptz NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id),
    FOREIGN KEY (tenant_id, hosted_uri) REFERENCES blobs (tenant_id, uri),
    CHECK ((hosted_uri IS NOT NULL) = (kind IN ('artifact:turn.log', 'conversation.memory.bucket.v1')))
);
CREATE INDEX conv_messages_newest ON conv_messages (tenant_id, user_id, conversation_id, kind, made_at DESC, id DESC);
-- The planner takes a conversation for short: without these two it finds one place by reading all turns of a
-- conversation. Of two indexes that cost the same it takes the later one.
ALTER TABLE conv_messages ADD UNIQUE (tenant_id, user_id, conversation_id, kind, place);
CREATE STATISTICS conv_messages_conversations (dependencies) ON tenant_id, user_id, conversation_id FROM conv_messages;
CREATE INDEX conv_messages_by_age ON conv_messages (tenant_id, made_at);
CREATE INDEX conv_messages_reactions ON conv_messages (tenant_id, user_id, conversation_id, turn_id)
    WHERE kind = 'artifact:turn.log.reaction';
CREATE INDEX conv_messages_waiting ON conv_messages (tenant_id, user_id, conversation_id, made_at)
    WHERE kind = 'artifact:turn.fingerprint.v1' AND reconciled_version IS DISTINCT FROM version;
CREATE INDEX conv_messages_blob ON conv_messages (tenant_id, hosted_uri) WHERE hosted_uri IS NOT NULL;
-- Where the newest assistant signals of a user are read: 0.1 ms, where the index of tags took 1.1 for 2,000 turns.
CREATE INDEX conv_messages_signals ON conv_messages (tenant_id, user_id, made_at DESC, id DESC)
    WHERE kind = 'artifact:turn.fingerprint.v1' AND tags @> '{assistant_signal}';
-- Row-level security keeps a GIN index of tags out of a plan, because @> is not leakproof. tagged_artifacts reaches it,
-- and finds the tenant and the user among the tags.
CREATE INDEX conv_messages_tags ON conv_messages USING gin ((tags || ARRAY['_t' || tenant_id::text, '_u' || user_id]));
GRANT SELECT, INSERT, DELETE ON conv_messages TO mnema_app;
GRANT UPDATE (turn_id, track_id, text, tags, hosted_uri, version, reconciled_version, made_at, updated_at)
    ON conv_messages TO mnema_app;

-- Take blobs that no artifact refers to out of the ledger, and return how many. Contents in PostgreSQL go at once; the
-- others are noted in swept_blobs. The foreign key of conv_messages refuses to take out a blob that is being referred
-- to.
CREATE FUNCTION remove_blobs(p_tenant uuid, p_uris text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_count int;
BEGIN
    WITH kept_here AS MATERIALIZED (
        SELECT uri FROM blob_contents WHERE tenant_id = p_tenant AND uri = ANY (p_uris)),
    removed AS (
        DELETE FROM blobs WHERE tenant_id = p_tenant AND uri = ANY (p_uris) RETURNING uri),
    noted AS (
        INSERT INTO swept_blobs (tenant_id, uri)
            SELECT p_tenant, uri FROM removed WHERE uri NOT IN (SELECT uri FROM kept_here))
    SELECT count(*) INTO v_count FROM removed;
    RETURN v_count;
END $$;

-- Take at most p_limit blobs out of the ledger that are older than p_before and that no artifact refers to. Skips a
-- blob that is being referred to at this moment.
CREATE FUNCTION sweep_blobs(p_tenant uuid, p_before timestamptz, p_limit int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN remove_blobs(p_tenant, ARRAY (
        SELECT b.uri FROM blobs b
        WHERE b.tenant_id = p_tenant AND b.created_at < p_before
          AND NOT EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.hosted_uri = b.uri)
          AND NOT EXISTS (SELECT FROM files f WHERE f.tenant_id = p_tenant AND f.hosted_uri = b.uri)
        ORDER BY b.created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
END $$;
GRANT EXECUTE ON FUNCTION enter_blob(uuid, text, text), put_blob_content(uuid, text, bytea), remove_blobs(uuid, text[]),
    sweep_blobs(uuid, timestamptz, int) TO mnema_app;

-- Take blobs out of the ledger at once, and queue the deletion of those outside PostgreSQL. Returns their number. A job
-- that waits deletes these too: its lock keeps it from starting before this transaction ends.
CREATE FUNCTION discard_blobs(p_tenant uuid, p_uris text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_count int := remove_blobs(p_tenant, p_uris);
BEGIN
    IF NOT EXISTS (SELECT FROM swept_blobs WHERE tenant_id = p_tenant AND uri = ANY (p_uris) AND NOT deleted) THEN
        RETURN v_count;
    END IF;
    PERFORM FROM jobs WHERE tenant_id = p_tenant AND kind = 'blobs' AND state = 'queued' AND is_due(next_run)
        LIMIT 1 FOR SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO jobs (tenant_id, id, kind) VALUES (p_tenant, gen_random_uuid(), 'blobs');
    END IF;
    RETURN v_count;
END $$;

-- Delete the artifacts of a user with all blobs that were entered for the user. The caller holds the lock of the user's
-- row, so that no artifact is written meanwhile. Returns the numbers of rows.
CREATE FUNCTION erase_artifacts(p_tenant uuid, p_user text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_artifacts int;
BEGIN
    DELETE FROM conv_messages WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_artifacts = ROW_COUNT;
    RETURN jsonb_build_object('artifacts', v_artifacts, 'blobs', discard_blobs(p_tenant, ARRAY (
        SELECT uri FROM blobs WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY uri FOR UPDATE)));
END $$;

-- Delete the artifacts of a conversation with their blobs. Returns the number of artifacts.
CREATE FUNCTION purge_artifacts(p_tenant uuid, p_user text, p_conversation text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_uris text[];
    v_artifacts int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    WITH gone AS (
        DELETE FROM conv_messages WHERE tenant_id = p_tenant AND user_id = p_user AND conversation_id = p_conversation
        RETURNING hosted_uri)
    SELECT count(*), array_agg(hosted_uri) FILTER (WHERE hosted_uri IS NOT NULL) INTO v_artifacts, v_uris FROM gone;
    PERFORM discard_blobs(p_tenant, coalesce(v_uris, '{}'));
    RETURN v_artifacts;
END $$;

-- Delete at most p_limit artifacts made before p_before, the oldest first. What belongs to a whole conversation must
-- also be unchanged since then. A sweep deletes the blobs later. Returns the number.
CREATE FUNCTION expire_artifacts(p_tenant uuid, p_before timestamptz, p_limit int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_count int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM conv_messages WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM conv_messages
        WHERE tenant_id = p_tenant AND made_at < p_before AND (turn_id IS NOT NULL OR updated_at < p_before)
        ORDER BY made_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
GRANT EXECUTE ON FUNCTION discard_blobs(uuid, text[]), erase_artifacts(uuid, text), purge_artifacts(uuid, text, text),
    expire_artifacts(uuid, timestamptz, int) TO mnema_app;

-- Store, replace and delete artifacts of one conversation, and add jobs, in one transaction. A row with `text` null is
-- deleted. `expect` is the version to replace (0: there is none; null: any); another one fails with 40001.
CREATE FUNCTION put_artifacts(p_tenant uuid, p_user text, p_conversation text, p_rows jsonb, p_jobs jsonb)
    RETURNS SETOF conv_messages LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_old bigint;
    v_row conv_messages;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    LOOP  -- the lock holds off an erasure; after one that came first, the user is new
        PERFORM ensure_users(p_tenant, jsonb_build_array(p_user));
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = p_user FOR KEY SHARE;
        EXIT WHEN FOUND;
    END LOOP;
    FOR r IN SELECT * FROM jsonb_to_recordset(p_rows) AS x(id uuid, kind text, place text, turn_id text,
        track_id text, text text,
                 tags jsonb, hosted_uri text, made_at timestamptz, expect bigint) ORDER BY kind, place
    LOOP
        SELECT version INTO v_old FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
            AND c.conversation_id = p_conversation AND c.kind = r.kind AND c.place = r.place FOR UPDATE;
        IF coalesce(r.expect, v_old, 0) <> coalesce(v_old, 0) THEN
            RAISE EXCEPTION 'an artifact changed' USING ERRCODE = '40001';
        END IF;
        IF r.text IS NULL THEN
            DELETE FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
                AND c.conversation_id = p_conversation AND c.kind = r.kind AND c.place = r.place;
            CONTINUE;
        END IF;
        INSERT INTO conv_messages AS c (tenant_id, id, user_id, conversation_id, turn_id, track_id, kind,
            place, text, tags,
                                        hosted_uri, made_at)
            VALUES (p_tenant, r.id, p_user, p_conversation, r.turn_id, r.track_id, r.kind, r.place, r.text,
                    ARRAY (SELECT jsonb_array_elements_text(r.tags)), r.hosted_uri, r.made_at)
            ON CONFLICT (tenant_id, user_id, conversation_id, kind, place) DO UPDATE
                SET turn_id = excluded.turn_id, track_id = excluded.track_id, text = excluded.text,
                    tags = excluded.tags,
                    hosted_uri = excluded.hosted_uri, made_at = excluded.made_at, version = c.version + 1,
                    updated_at = clock_timestamp()
                WHERE r.expect IS NULL OR c.version = r.expect
            RETURNING c.* INTO v_row;
        IF NOT FOUND THEN  -- another writer inserted it first
            RAISE EXCEPTION 'an artifact changed' USING ERRCODE = '40001';
        END IF;
        RETURN NEXT v_row;
    END LOOP;
    INSERT INTO jobs (tenant_id, id, kind, user_id, payload, slot)
        SELECT p_tenant, j.id, j.kind, p_user, j.payload, j.slot
        FROM jsonb_to_recordset(p_jobs) AS j(id uuid, kind text, payload jsonb, slot text)
        ON CONFLICT (tenant_id, kind, slot) DO NOTHING;
END $$;
GRANT EXECUTE ON FUNCTION put_artifacts(uuid, text, text, jsonb, jsonb) TO mnema_app;

-- Do as put_artifacts does, and mark fingerprints as reconciled in the same transaction. A fingerprint that was
-- replaced meanwhile keeps waiting: its version is another one.
CREATE FUNCTION put_buckets(p_tenant uuid, p_user text, p_conversation text, p_rows jsonb, p_jobs jsonb, p_taken jsonb)
    RETURNS SETOF conv_messages LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT * FROM put_artifacts(p_tenant, p_user, p_conversation, p_rows, p_jobs);
    UPDATE conv_messages c SET reconciled_version = t.version
    FROM jsonb_to_recordset(p_taken) AS t(turn_id text, version bigint)
    WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
      AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = t.turn_id;
END $$;
GRANT EXECUTE ON FUNCTION put_buckets(uuid, text, text, jsonb, jsonb, jsonb) TO mnema_app;

-- Return the newest artifacts of a user with a tag, made since p_since, in all conversations. A definer: see the index.
CREATE FUNCTION tagged_artifacts(p_user text, p_tag text, p_since timestamptz, p_limit int)
    RETURNS TABLE (id uuid, made_at timestamptz) LANGUAGE sql STABLE SECURITY DEFINER
        SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT c.id, c.made_at FROM conv_messages c
    WHERE (c.tags || ARRAY['_t' || c.tenant_id::text, '_u' || c.user_id])
            @> ARRAY[p_tag, '_t' || nullif(current_setting('app.tenant_id', true), ''), '_u' || p_user]
      AND c.tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid AND c.user_id = p_user
      AND c.made_at >= p_since
    ORDER BY c.made_at DESC, c.id DESC LIMIT p_limit
$$;
REVOKE ALL ON FUNCTION tagged_artifacts(text, text, timestamptz, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tagged_artifacts(text, text, timestamptz, int) TO mnema_app;

-- Return the newest fingerprints of a user that have assistant signals, made since p_since, in all conversations; with
-- p_tag those that have this tag.
CREATE FUNCTION assistant_signals(p_tenant uuid, p_user text, p_since timestamptz, p_limit int, p_tag text)
    RETURNS TABLE (conversation_id text, turn_id text, made_at timestamptz, content text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_tag IS NOT NULL THEN
        RETURN QUERY SELECT c.conversation_id, c.turn_id, c.made_at, c.text
            FROM tagged_artifacts(p_user, p_tag, p_since, p_limit) t
            JOIN conv_messages c ON c.tenant_id = p_tenant AND c.id = t.id
            WHERE c.kind = 'artifact:turn.fingerprint.v1' ORDER BY c.made_at DESC, c.id DESC;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.conversation_id, c.turn_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.made_at >= p_since
            AND c.kind = 'artifact:turn.fingerprint.v1' AND c.tags @> '{assistant_signal}'
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_limit;
END $$;
GRANT EXECUTE ON FUNCTION assistant_signals(uuid, text, timestamptz, int, text) TO mnema_app;

-- Return the index rows that a view is built from, made since p_since, in one round trip. It reads no blob. p_turn: the
-- current turn. p_named: the selected turns, by id or its beginning; NULL: those of the active set. p_logs, p_window,
-- p_most, p_reactions and p_signals: the numbers of prior turns, of newest fingerprints, of fingerprints with those
-- that are not reconciled yet, of reactions, and of turns with assistant signals. p_whole: the fingerprints of the
-- window are needed even if turns are selected.
CREATE FUNCTION turn_memory_context(p_tenant uuid, p_user text, p_conversation text, p_turn text, p_named text[],
                                    p_since timestamptz, p_whole boolean, p_logs int, p_window int, p_most int,
                                    p_reactions int, p_signals int)
    RETURNS TABLE (part text, turn_id text, conversation_id text, made_at timestamptz, content text)
        LANGUAGE plpgsql AS $$
DECLARE
    v_set text;
    v_delta timestamptz;
    v_name text;
    v_places text[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT c.text INTO v_set FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
        AND c.conversation_id = p_conversation AND c.kind = 'conversation.active_set.v1' AND c.place = '';
    IF v_set IS NOT NULL THEN
        RETURN QUERY SELECT 'active_set', NULL, p_conversation, NULL::timestamptz, v_set;
        v_delta := (v_set::jsonb ->> 'last_reconciled_ts')::timestamptz;
        IF p_named IS NULL AND jsonb_typeof(v_set::jsonb -> 'selected_local_memories_turn_ids') = 'array' THEN
            p_named := ARRAY (SELECT jsonb_array_elements_text(v_set::jsonb -> 'selected_local_memories_turn_ids'));
        END IF;
    END IF;
    RETURN QUERY SELECT 'log', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
            AND c.kind = 'artifact:turn.log' AND c.made_at >= p_since AND c.place IS DISTINCT FROM p_turn
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_logs;
    IF p_turn IS NOT NULL THEN
        RETURN QUERY SELECT CASE c.kind WHEN 'artifact:turn.log' THEN 'current_log' ELSE 'current' END, c.turn_id,
                c.conversation_id, c.made_at, c.text FROM conv_messages c
            WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                AND c.kind IN ('artifact:turn.log', 'artifact:turn.fingerprint.v1') AND c.place = p_turn
                AND c.made_at >= p_since;
    END IF;
    IF p_whole OR p_named IS NULL THEN
        RETURN QUERY SELECT 'window', n.turn_id, n.conversation_id, n.made_at, n.text
            FROM (SELECT c.*, row_number() OVER (ORDER BY c.made_at DESC, c.id DESC) AS number FROM conv_messages c
                  WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                      AND c.kind = 'artifact:turn.fingerprint.v1' AND c.made_at >= p_since
                  ORDER BY c.made_at DESC, c.id DESC LIMIT p_most) n
            WHERE n.number <= p_window OR date_trunc('milliseconds', n.made_at) > v_delta;
    END IF;
    FOREACH v_name IN ARRAY coalesce(p_named, '{}') LOOP
        v_places := ARRAY (SELECT c.place FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
            AND c.conversation_id = p_conversation AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = v_name);
        IF cardinality(v_places) = 0 AND v_name <> '' THEN
            v_places := ARRAY (SELECT c.place FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
                AND c.conversation_id = p_conversation AND c.kind = 'artifact:turn.fingerprint.v1'
                AND starts_with(c.place, v_name) LIMIT 2);
        END IF;
        IF cardinality(v_places) = 1 THEN  -- the beginning of an id counts if no second turn begins so
            RETURN QUERY SELECT 'named', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
                WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                    AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = v_places[1] AND c.made_at >= p_since;
        END IF;
    END LOOP;
    RETURN QUERY SELECT 'reaction', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
            AND c.kind = 'artifact:turn.log.reaction' AND c.made_at >= p_since
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_reactions;
    IF p_signals > 0 THEN
        RETURN QUERY SELECT 'signal', s.turn_id, s.conversation_id, s.made_at, s.content
            FROM assistant_signals(p_tenant, p_user, p_since, p_signals, NULL) s;
    END IF;
END $$;
GRANT EXECUTE ON FUNCTION turn_memory_context(uuid, text, text, text, text[], timestamptz, boolean, int, int,
    int, int, int)
    TO mnema_app;
