-- Memories, their relations, and the records that every change of a memory leaves: history, change log and thread
-- revision. memory_write.sql has the functions that write them.

CREATE TABLE memories (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    user_pk        bigint NOT NULL,
    user_id        text NOT NULL,
    thread_id      text,
    seq            bigint,
    agent_id       text,
    run_id         text,
    actor_id       text,
    role           text,
    type           text NOT NULL CHECK (type IN ('semantic', 'episodic', 'procedural', 'insight', 'turn',
        'summary', 'chunk')),
    category       text NOT NULL,
    text           text NOT NULL CHECK (text <> ''),
    steps_text     text,
    text_hash      bytea NOT NULL,
    importance     smallint NOT NULL CHECK (importance BETWEEN 1 AND 5),
    pinned         boolean NOT NULL,
    tags           text[] NOT NULL,
    state          text NOT NULL CHECK (state IN ('active', 'superseded', 'soft_deleted')),
    source         jsonb,
    metadata       jsonb NOT NULL,
    superseded_by  uuid,
    purge_at       timestamptz,
    version        integer NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    -- The speaker's name and the titles over a chunk can be searched too. The tenant and the user are words of the
    -- index, which stays selective under row-level security. Those of chunks differ, so that chunks are searched apart.
    tsv            tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('english', coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, '')
                               || CASE WHEN type = 'chunk' THEN ' ' || coalesce(source->>'heading', '') ELSE '' END)
        || array_to_tsvector(CASE WHEN type = 'chunk'
                             THEN ARRAY['_ct' || replace(tenant_id::text, '-', ''), '_cu' || user_pk::text]
                             ELSE ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text] END)
    ) STORED,
    -- When Mnema stored the row. created_at may be older, as an import sets it; forgetting counts from stored_at.
    stored_at      timestamptz NOT NULL DEFAULT now(),
    -- The topic whose facts this memory tells; NULL for any other memory. Only the statements of facts write such a
    -- memory (write_fact_memory); the vector tables give its type as 'fact', so that no memory is compared with it.
    fact_topic     text,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_pk) REFERENCES users (tenant_id, user_pk),
    CHECK ((type = 'procedural') = (category = 'procedural')),
    CHECK ((type = 'procedural') = (steps_text IS NOT NULL))
);
CREATE UNIQUE INDEX memories_active_text ON memories (tenant_id, user_pk, category, text_hash)
    WHERE type = 'semantic' AND state = 'active';
CREATE INDEX memories_by_created ON memories (tenant_id, created_at DESC, id DESC);
CREATE INDEX memories_by_user ON memories (tenant_id, user_pk, created_at DESC, id DESC);
CREATE INDEX memories_by_thread ON memories (tenant_id, thread_id, seq) WHERE thread_id IS NOT NULL;
CREATE INDEX memories_by_run ON memories (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX memories_by_category ON memories (tenant_id, category, state);
CREATE INDEX memories_forgettable ON memories (tenant_id, updated_at) WHERE state = 'active' AND NOT pinned;
CREATE INDEX memories_purgeable ON memories (tenant_id, purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX memories_summaries ON memories (tenant_id, user_pk, thread_id) WHERE type = 'summary' AND state = 'active';
CREATE UNIQUE INDEX memories_of_facts ON memories (tenant_id, user_pk, fact_topic) WHERE fact_topic IS NOT NULL;
CREATE INDEX memories_tsv ON memories USING gin (tsv);
-- Every column that a filter reads: a filtered query reads this index, then the vectors of the memories that match.
CREATE INDEX memories_filtered ON memories (tenant_id, user_pk)
    INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance, updated_at)
    WHERE state = 'active' AND type <> 'chunk';
CREATE INDEX memories_chunks ON memories (tenant_id, user_pk)
    INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance, updated_at)
    WHERE state = 'active' AND type = 'chunk';
GRANT SELECT, INSERT, DELETE ON memories TO mnema_app;
GRANT UPDATE (text, steps_text, text_hash, category, importance, pinned, tags, state, source, metadata, superseded_by,
              -- a merge keeps the oldest created_at
              purge_at, version, created_at, updated_at) ON memories TO mnema_app;

CREATE TABLE relations (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    from_id        text NOT NULL,
    to_id          text NOT NULL,
    relation_type  text DEFAULT 'related_to',
    strength       real NOT NULL,
    created_at     timestamptz DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX relations_from ON relations (tenant_id, from_id);
CREATE INDEX relations_to ON relations (tenant_id, to_id);
CREATE UNIQUE INDEX relations_pair ON relations (tenant_id, least(from_id, to_id), greatest(from_id, to_id));
GRANT SELECT, INSERT, UPDATE, DELETE ON relations TO mnema_app;

CREATE TABLE thread_revision (
    tenant_id  uuid NOT NULL,
    thread_id  text NOT NULL,
    rev        bigint NOT NULL,
    -- {category: newest revision with a change of it that expire_records deleted from the log, '': of all categories}
    pruned     jsonb NOT NULL DEFAULT '{}',
    erased     jsonb NOT NULL DEFAULT '{}',         -- {category: newest revision that left the log with an erased user}
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 50);
GRANT SELECT, INSERT, UPDATE ON thread_revision TO mnema_app;

CREATE TABLE change_log (
    tenant_id        uuid NOT NULL,
    id               uuid NOT NULL,
    thread_id        text NOT NULL,
    rev              bigint NOT NULL,
    memory_id        text NOT NULL,
    event            text NOT NULL,
    category_before  text,
    category_after   text,
    meta             jsonb NOT NULL DEFAULT '{}',
    ts               timestamptz NOT NULL DEFAULT now(),
    user_pk          bigint,                         -- this and the next two outlive the memory
    type             text,
    state_before     text,                           -- NULL: the memory did not exist
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX change_log_rev ON change_log (tenant_id, thread_id, rev DESC);
CREATE INDEX change_log_memory ON change_log (tenant_id, memory_id);
GRANT SELECT, INSERT, UPDATE (meta), DELETE ON change_log TO mnema_app;
GRANT UPDATE (thread_id) ON change_log TO mnema_app;  -- erase_threads

CREATE TABLE history (                              -- append-only; the rows outlive their memory
    tenant_id  uuid NOT NULL,
    id         uuid NOT NULL,
    memory_id  text NOT NULL,
    event      text NOT NULL CHECK (event IN
        ('ADD', 'UPDATE', 'DELETE', 'MERGE', 'LINK', 'TTL', 'RESTORE', 'PURGE', 'CONSENT')),
    old_ref    text,
    new_ref    text,
    actor      text,
    meta       jsonb NOT NULL DEFAULT '{}',
    ts         timestamptz NOT NULL DEFAULT now(),
    stamp      bigint NOT NULL DEFAULT transaction_stamp(),
    -- memory_id before id: refuse_silent_change probes this index at commit, however large the transaction is
    PRIMARY KEY (tenant_id, memory_id, id)
);
CREATE INDEX history_by_time ON history (tenant_id, memory_id, ts DESC, id DESC);
CREATE INDEX history_by_transaction ON history (tenant_id, stamp, id);  -- GET /memory/changes
-- The stamp has only its default, so no row can claim to be of another transaction. Rows are blanked, never deleted.
GRANT SELECT, INSERT (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts), UPDATE (meta, actor)
    ON history TO mnema_app;

-- An actor can be taken from a row, but not replaced.
CREATE FUNCTION refuse_other_actor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the actor of a change cannot be replaced' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER history_actor BEFORE UPDATE OF actor ON history FOR EACH ROW
    WHEN (NEW.actor IS NOT NULL AND NEW.actor IS DISTINCT FROM OLD.actor) EXECUTE FUNCTION refuse_other_actor();

-- Take from the history of memories, facts or proposals what can hold words of a person; return the number of rows. The
-- name of an agent is the caller's text; a key, and the system, stay the actor.
CREATE FUNCTION blank_history(p_tenant uuid, p_ids text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_count int;
BEGIN
    UPDATE history SET meta = '{}', actor = substring(actor FROM '^(?:system|key:[0-9a-f-]{36})$')
        WHERE tenant_id = p_tenant AND memory_id = ANY (p_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
GRANT EXECUTE ON FUNCTION blank_history(uuid, text[]) TO mnema_app;

CREATE TABLE idempotency_keys (                     -- ids and a status, no text
    tenant_id   uuid NOT NULL,
    key_id      uuid NOT NULL,
    route       text NOT NULL,
    key         text NOT NULL,
    body_hash   bytea NOT NULL,
    response    jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    user_id     text,                               -- the record is exported and erased with this user
    PRIMARY KEY (tenant_id, key_id, route, key)
);
CREATE INDEX idempotency_keys_of_user ON idempotency_keys (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (tenant_id, created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO mnema_app;

-- Refuse, at commit, a change of a memory without a history row of the same transaction.
CREATE FUNCTION refuse_silent_change() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r memories := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    -- OFFSET 0: not by history_by_transaction, which holds every other memory of the transaction
    PERFORM 1 FROM (SELECT h.stamp FROM history h WHERE h.tenant_id = r.tenant_id
        AND h.memory_id = r.id::text OFFSET 0) o
      WHERE o.stamp = transaction_stamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'memory % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memories_tripwire AFTER INSERT OR UPDATE OR DELETE ON memories
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_change();
