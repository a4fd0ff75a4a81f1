-- Tables of the memory core. Seed 003's columns, types and indexes are kept as given, with tenant_id added and leading
-- every primary, unique and foreign key, so that one hash distribution by tenant stays possible.

-- Functions are nobody's to call until granted.
ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

CREATE TABLE tenants (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    name        text NOT NULL,
    prefix      text NOT NULL,                      -- shown in lists; the key itself is never stored
    key_hash    bytea NOT NULL,                     -- SHA-256 of a 256-bit random key
    agents      text[],                             -- NULL: not bound to agents
    scopes      text[] NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX api_keys_hash ON api_keys (key_hash);

CREATE TABLE users (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    user_id     text NOT NULL,
    user_pk     bigint GENERATED ALWAYS AS IDENTITY, -- unique over all tenants: one column with true statistics
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id),
    UNIQUE (tenant_id, user_pk)
);

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
    type           text NOT NULL CHECK (type IN ('semantic', 'episodic', 'procedural', 'insight', 'turn', 'summary', 'chunk')),
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
    -- who speaks is part of what was said; tenant and user ride along: the index stays selective under row-level security
    tsv            tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('english', coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, ''))
        || array_to_tsvector(ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text])
    ) STORED,
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
CREATE INDEX memories_by_category ON memories (tenant_id, category, state);
CREATE INDEX memories_forgettable ON memories (tenant_id, updated_at) WHERE state = 'active' AND NOT pinned;
CREATE INDEX memories_purgeable ON memories (tenant_id, purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX memories_tsv ON memories USING gin (tsv);

CREATE TABLE embedding_spaces (                     -- of the installation, not of a tenant
    name         text PRIMARY KEY,                  -- also the suffix of its table: vec_<name>
    model        text NOT NULL,
    dimension    integer NOT NULL CHECK (dimension BETWEEN 1 AND 4000),
    active       boolean NOT NULL DEFAULT false,
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX embedding_spaces_one_active ON embedding_spaces (active) WHERE active;

CREATE TABLE memory_access (                        -- reading never rewrites a memory
    tenant_id      uuid NOT NULL,
    memory_id      uuid NOT NULL,
    last_accessed  timestamptz NOT NULL,
    hits           bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 70);

CREATE TABLE relations (                            -- seed 003 §2
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    from_id        text NOT NULL,
    to_id          text NOT NULL,
    relation_type  text DEFAULT 'related_to',
    strength       real NOT NULL,
    created_at     timestamptz DEFAULT now(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, from_id, to_id)              -- also serves as the index on from_id
);
CREATE INDEX relations_to ON relations (tenant_id, to_id);
CREATE UNIQUE INDEX relations_pair ON relations (tenant_id, least(from_id, to_id), greatest(from_id, to_id));

CREATE TABLE thread_revision (                      -- seed 003 §1
    tenant_id  uuid NOT NULL,
    thread_id  text NOT NULL,
    rev        bigint NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
) WITH (fillfactor = 50);

CREATE TABLE change_log (                           -- seed 003 §1
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
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX change_log_rev ON change_log (tenant_id, thread_id, rev DESC);
CREATE INDEX change_log_memory ON change_log (tenant_id, memory_id);

CREATE TABLE delta_cursors (
    tenant_id   uuid NOT NULL,
    thread_id   text NOT NULL,
    agent       text NOT NULL,
    rev         bigint NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, thread_id, agent)
) WITH (fillfactor = 70);

CREATE TABLE history (                              -- seed 003 §8; append-only, outlives its memory
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
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- memory_id before id: the tripwire's look-up at commit stays an index probe however large the transaction
    PRIMARY KEY (tenant_id, memory_id, id)
);
CREATE INDEX history_by_time ON history (tenant_id, memory_id, ts DESC, id DESC);

CREATE TABLE events (                               -- seed 003 §14
    tenant_id  uuid NOT NULL,
    id         uuid NOT NULL,
    user_id    text,
    thread_id  text,
    node       text NOT NULL CHECK (node IN ('hotpath', 'context', 'episodic', 'worker')),
    op         text NOT NULL,
    status     text NOT NULL CHECK (status IN ('ok', 'error', 'skipped')),
    memory_id  text,
    category   text,
    sim        real,
    ts         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX events_by_user ON events (tenant_id, user_id, ts DESC);
CREATE INDEX events_by_node ON events (tenant_id, node, ts DESC);
CREATE INDEX events_by_age ON events (tenant_id, ts);

CREATE TABLE idempotency_keys (                     -- ids and status only, never text
    tenant_id   uuid NOT NULL,
    key_id      uuid NOT NULL,
    route       text NOT NULL,
    key         text NOT NULL,
    body_hash   bytea NOT NULL,
    response    jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id, route, key)
);

CREATE TABLE outbox (
    tenant_id     uuid NOT NULL,
    id            uuid NOT NULL,
    kind          text NOT NULL,
    payload       jsonb NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    published_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX outbox_unpublished ON outbox (created_at) WHERE published_at IS NULL;

CREATE TABLE tombstones (                           -- keyed hashes (HMAC-SHA-256) of erased texts and turns
    tenant_id   uuid NOT NULL,
    hash        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, hash)
);

CREATE TABLE supervisor_checkpoints (               -- seed 003 §15
    tenant_id        uuid NOT NULL,
    id               uuid NOT NULL,
    user_id          text NOT NULL,
    thread_id        text NOT NULL,
    checkpoint_data  jsonb NOT NULL,
    created_at       timestamptz DEFAULT now(),
    updated_at       timestamptz DEFAULT now(),
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX supervisor_checkpoints_thread ON supervisor_checkpoints (tenant_id, user_id, thread_id);
CREATE INDEX supervisor_checkpoints_updated ON supervisor_checkpoints (tenant_id, updated_at DESC);
