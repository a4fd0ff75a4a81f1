-- Sources: folders and uploaded files, their files, and the places of their chunks. A chunk itself is a memory of type
-- chunk; it has the category and the user of its source.

CREATE TABLE sources (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    user_id     text NOT NULL,                   -- whose documents; '_shared': every user of the tenant finds them
    name        text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('folder', 'upload')),
    root_path   text,                            -- as the workers see the folder
    category    text NOT NULL,
    agent_id    text,                            -- the agent that added the source
    include     text[] NOT NULL,                 -- patterns of paths; none: every file
    exclude     text[] NOT NULL,
    watch       boolean NOT NULL,
    removed_at  timestamptz,                     -- no query finds its chunks any more; a job deletes them
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id),
    CHECK ((kind = 'folder') = (root_path IS NOT NULL))
);
CREATE UNIQUE INDEX sources_root ON sources (tenant_id, user_id, category, root_path) WHERE removed_at IS NULL;
CREATE INDEX sources_listed ON sources (tenant_id, created_at DESC, id DESC);
CREATE INDEX sources_of_user ON sources (tenant_id, user_id);
CREATE INDEX sources_removed ON sources (tenant_id) WHERE removed_at IS NOT NULL;
GRANT SELECT, INSERT, DELETE, UPDATE (name, include, exclude, watch, removed_at, updated_at) ON sources TO mnema_app;

CREATE TABLE files (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    source_id    uuid NOT NULL,
    user_id      text NOT NULL,                  -- of the source
    path         text NOT NULL,                  -- below the root, with '/'
    filetype     text,                           -- a DocumentKind; null: no parser reads it
    size         bigint NOT NULL,
    modified_at  timestamptz NOT NULL,
    stamp        text NOT NULL,                  -- of a folder's file: if it is the same, the file is not read again
    hash         bytea,                          -- SHA-256 of the content; null: not read
    settings     text NOT NULL,                  -- of the parser; if they changed, the file is parsed again
    state        text NOT NULL CHECK (state IN ('waiting', 'indexed', 'rejected')),
    reason       text,                           -- why it is rejected: a RejectionReason
    detail       text,
    -- positions count the characters of the file decoded so; null: of its extracted text
    encoding     text,
    characters   bigint NOT NULL DEFAULT 0,
    chunk_count  integer NOT NULL DEFAULT 0,
    hosted_uri   text,                           -- the blob of an uploaded file
    indexed_at   timestamptz,
    index_job_id uuid,                           -- the job that added or changed it last: a resumed job counts it once
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, source_id, path),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources (tenant_id, id),
    FOREIGN KEY (tenant_id, hosted_uri) REFERENCES blobs (tenant_id, uri),
    CHECK ((state = 'rejected') = (reason IS NOT NULL))
);
CREATE INDEX files_by_state ON files (tenant_id, source_id, state, path);
CREATE INDEX files_of_user ON files (tenant_id, user_id, id);
CREATE INDEX files_blob ON files (tenant_id, hosted_uri) WHERE hosted_uri IS NOT NULL;
GRANT SELECT, INSERT, DELETE ON files TO mnema_app;
GRANT UPDATE (filetype, size, modified_at, stamp, hash, settings, state, reason, detail, encoding,
    characters, chunk_count,
              hosted_uri, indexed_at, index_job_id, updated_at) ON files TO mnema_app;

-- The place of a chunk in its file, or in its turn.
CREATE TABLE chunks (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    file_id    uuid,
    turn_id    uuid,
    ordinal    integer NOT NULL,                 -- from 0
    start_at   integer NOT NULL,                 -- the first character
    end_at     integer NOT NULL,                 -- the character after the last one
    page       integer,                          -- from 1
    heading    text[] NOT NULL,                  -- from the highest title down
    gap        text NOT NULL DEFAULT '',         -- the white space between the chunk before and this one
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id),
    FOREIGN KEY (tenant_id, turn_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE,
    -- a chunk is replaced by another of the same ordinal in one transaction
    CONSTRAINT chunks_of_file UNIQUE (tenant_id, file_id, ordinal) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT chunks_of_turn UNIQUE (tenant_id, turn_id, ordinal) DEFERRABLE INITIALLY DEFERRED,
    CHECK ((file_id IS NULL) <> (turn_id IS NULL)),
    CHECK (ordinal >= 0 AND 0 <= start_at AND start_at < end_at AND page >= 1)
);
GRANT SELECT, INSERT, DELETE, UPDATE (ordinal, start_at, end_at, page, heading, gap) ON chunks TO mnema_app;

CREATE TABLE index_jobs (
    tenant_id      uuid NOT NULL,
    id             uuid NOT NULL,
    source_id      uuid NOT NULL,
    user_id        text NOT NULL,                -- of the source
    job_id         uuid NOT NULL,                -- of the queue
    kind           text NOT NULL CHECK (kind IN ('sync', 'removal')),
    cause          text NOT NULL CHECK (cause IN ('added', 'request', 'upload', 'watch', 'schedule', 'removed')),
    state          text NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    files_total    integer,                      -- null: not counted yet
    files_done     integer NOT NULL DEFAULT 0,   -- of files_total: the sum of the next five
    added          integer NOT NULL DEFAULT 0,
    changed        integer NOT NULL DEFAULT 0,
    unchanged      integer NOT NULL DEFAULT 0,
    removed        integer NOT NULL DEFAULT 0,
    rejected       integer NOT NULL DEFAULT 0,
    chunks_added   integer NOT NULL DEFAULT 0,
    chunks_kept    integer NOT NULL DEFAULT 0,
    chunks_removed integer NOT NULL DEFAULT 0,
    bytes_read     bigint NOT NULL DEFAULT 0,
    error          text,                         -- a code and a sentence, without any text of a document
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at     timestamptz,
    ended_at       timestamptz,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, source_id) REFERENCES sources (tenant_id, id) ON DELETE CASCADE
);
-- One job of a source waits at most, and one runs.
CREATE UNIQUE INDEX index_jobs_open ON index_jobs (tenant_id, source_id, state) WHERE state IN ('queued', 'running');
CREATE INDEX index_jobs_listed ON index_jobs (tenant_id, source_id, created_at DESC, id DESC);
GRANT SELECT, INSERT, DELETE ON index_jobs TO mnema_app;
GRANT UPDATE (kind, cause, state, files_total, files_done, added, changed, unchanged, removed, rejected,
    chunks_added, chunks_kept,
              chunks_removed, bytes_read, error, started_at, ended_at, updated_at) ON index_jobs TO mnema_app;

-- What each source holds and does. A view and no table, so that it is always true. It reads with the caller's rights.
CREATE VIEW source_status WITH (security_invoker = true) AS
    SELECT s.tenant_id, s.id AS source_id,
           CASE WHEN s.removed_at IS NOT NULL THEN 'removing' WHEN j.state IS NOT NULL THEN 'indexing'
                WHEN l.state = 'failed' THEN 'failed' ELSE 'ready' END AS status,
           f.files, f.indexed, f.waiting, f.rejected, f.chunks, f.bytes,
           (SELECT max(d.ended_at) FROM index_jobs d
            WHERE d.tenant_id = s.tenant_id AND d.source_id = s.id AND d.state = 'done') AS synced_at, l.error
    FROM sources s
    CROSS JOIN LATERAL (SELECT count(*) AS files, count(*) FILTER (WHERE state = 'indexed') AS indexed,
                 count(*) FILTER (WHERE state = 'waiting') AS waiting,
                 count(*) FILTER (WHERE state = 'rejected') AS rejected,
                 coalesce(sum(chunk_count), 0)::bigint AS chunks,
                 coalesce(sum(size) FILTER (WHERE state <> 'rejected'), 0)::bigint AS bytes
          FROM files WHERE tenant_id = s.tenant_id AND source_id = s.id) f
    LEFT JOIN LATERAL (SELECT state FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
        AND state IN ('queued', 'running') LIMIT 1) j ON true
    LEFT JOIN LATERAL (SELECT state, error FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
        AND state IN ('done', 'failed') ORDER BY ended_at DESC LIMIT 1) l ON true;
GRANT SELECT ON source_status TO mnema_app;

-- Store a source and return it. The user's row is locked against an erasure. Raises 23505 if the folder is a source of
-- this user and category already.
CREATE FUNCTION create_source(p_tenant uuid, p_row jsonb) RETURNS SETOF sources LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    LOOP
        PERFORM ensure_users(p_tenant, jsonb_build_array(p_row->'user_id'));
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = p_row->>'user_id' FOR KEY SHARE;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN QUERY INSERT INTO sources AS s (tenant_id, id, user_id, name, kind, root_path, category, agent_id, include,
        exclude, watch)
        SELECT p_tenant, r.id, r.user_id, r.name, r.kind, r.root_path, r.category, r.agent_id, r.include,
            r.exclude, r.watch
        FROM jsonb_to_record(p_row) AS r(id uuid, user_id text, name text, kind text, root_path text, category text,
            agent_id text, include text[], exclude text[], watch boolean)
        RETURNING s.*;
END $$;

-- Queue an index job of a source with its job, and return it; or return the one that waits already. Returns no row if
-- there is no such source. A removed source gets a removal, whatever is asked for, and a job that waits becomes one.
CREATE FUNCTION queue_index_job(p_tenant uuid, p_source uuid, p_id uuid, p_job uuid, p_kind text, p_cause text)
    RETURNS SETOF index_jobs LANGUAGE plpgsql AS $$
DECLARE
    v_source sources;
    v_waiting index_jobs;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT * INTO v_source FROM sources WHERE tenant_id = p_tenant AND id = p_source FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT j.* INTO v_waiting FROM index_jobs j WHERE j.tenant_id = p_tenant AND j.source_id = p_source
        AND j.state = 'queued';
    IF FOUND AND EXISTS (SELECT FROM jobs WHERE tenant_id = p_tenant AND id = v_waiting.job_id
        AND state IN ('queued', 'running')) THEN
        IF v_source.removed_at IS NOT NULL AND v_waiting.kind <> 'removal' THEN
            UPDATE index_jobs SET kind = 'removal', cause = p_cause, updated_at = clock_timestamp()
                WHERE tenant_id = p_tenant AND id = v_waiting.id RETURNING * INTO v_waiting;
        END IF;
        RETURN NEXT v_waiting;
        RETURN;
    END IF;
    UPDATE index_jobs SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = 'job_failed: its job ended before it began'
        WHERE tenant_id = p_tenant AND id = v_waiting.id;
    INSERT INTO jobs (tenant_id, id, kind, user_id, payload) VALUES (p_tenant, p_job, 'index_source', v_source.user_id,
        jsonb_build_object('source_id', p_source, 'index_job_id', p_id));
    RETURN QUERY INSERT INTO index_jobs AS i (tenant_id, id, source_id, user_id, job_id, kind, cause, state)
        VALUES (p_tenant, p_id, p_source, v_source.user_id, p_job,
                CASE WHEN v_source.removed_at IS NULL THEN p_kind ELSE 'removal' END, p_cause, 'queued')
        RETURNING i.*;
END $$;
GRANT EXECUTE ON FUNCTION create_source(uuid, jsonb), queue_index_job(uuid, uuid, uuid, uuid, text, text) TO mnema_app;

-- Delete the sources of a user with their files, the places of their chunks and their index jobs. The chunks and the
-- blobs go with the user's memories and blobs. The caller holds the lock of the user's row, so that no source is added
-- meanwhile; the locks taken here hold off a job that is indexing a file. Returns the numbers of rows.
CREATE FUNCTION erase_sources(p_tenant uuid, p_user text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_jobs int;
    v_chunks int;
    v_files int;
    v_sources int;
BEGIN
    PERFORM 1 FROM sources WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    PERFORM 1 FROM files WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    DELETE FROM chunks c USING files f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND c.tenant_id = p_tenant AND c.file_id = f.id;
    GET DIAGNOSTICS v_chunks = ROW_COUNT;
    DELETE FROM files WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_files = ROW_COUNT;
    DELETE FROM index_jobs i USING sources s
        WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND i.tenant_id = p_tenant AND i.source_id = s.id;
    GET DIAGNOSTICS v_jobs = ROW_COUNT;
    DELETE FROM sources WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_sources = ROW_COUNT;
    RETURN jsonb_build_object('sources', v_sources, 'files', v_files, 'chunks', v_chunks, 'index_jobs', v_jobs);
END $$;
GRANT EXECUTE ON FUNCTION erase_sources(uuid, text) TO mnema_app;
-- Lock what a transaction of an index job needs, in the order of all writers: the user, the source, the job. Returns
-- 'held'; 'lost' if another worker has the job or may have it, or the user was erased; 'removed' if the source is
-- removed. A worker that takes the job over waits in begin_index_job until the transaction ends; the lease can be
-- extended meanwhile.
CREATE FUNCTION hold_source(p_tenant uuid, p_source uuid, p_job uuid, p_worker text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_removed timestamptz;
BEGIN
    PERFORM 1 FROM users WHERE tenant_id = p_tenant
        AND user_id = (SELECT user_id FROM sources WHERE tenant_id = p_tenant AND id = p_source) FOR KEY SHARE;
    SELECT removed_at INTO v_removed FROM sources WHERE tenant_id = p_tenant AND id = p_source FOR SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    PERFORM 1 FROM jobs WHERE tenant_id = p_tenant AND id = p_job AND worker = p_worker AND state = 'running'
        FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    RETURN CASE WHEN v_removed IS NULL THEN 'held' ELSE 'removed' END;
END $$;

-- Begin an index job, or go on with it. Returns 'running'; 'busy' if another one of the source runs; 'ended' if there
-- is nothing to do any more. A job of the source whose job in the queue is gone counts as failed.
CREATE FUNCTION begin_index_job(p_tenant uuid, p_id uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_job index_jobs;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT * INTO v_job FROM index_jobs WHERE tenant_id = p_tenant AND id = p_id;
    PERFORM 1 FROM sources WHERE tenant_id = p_tenant AND id = v_job.source_id FOR UPDATE;
    IF NOT FOUND THEN RETURN 'ended'; END IF;
    UPDATE index_jobs i SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = 'job_failed: its job is gone'
        WHERE tenant_id = p_tenant AND source_id = v_job.source_id AND id <> p_id AND state IN ('queued', 'running')
          AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = p_tenant AND j.id = i.job_id
              AND j.state IN ('queued', 'running'));
    SELECT * INTO v_job FROM index_jobs WHERE tenant_id = p_tenant AND id = p_id;
    IF v_job.state = 'done' THEN RETURN 'ended'; END IF;
    IF EXISTS (SELECT FROM index_jobs WHERE tenant_id = p_tenant AND source_id = v_job.source_id AND id <> p_id
               AND state = 'running') THEN RETURN 'busy'; END IF;
    UPDATE index_jobs SET state = 'running', error = NULL, ended_at = NULL,
        started_at = coalesce(started_at, clock_timestamp()),
            updated_at = clock_timestamp()
        WHERE tenant_id = p_tenant AND id = p_id;
    RETURN 'running';
END $$;

-- Delete chunks for good, with their text in history. Chunks have no relations and are in no thread's delta, so that no
-- other memory of the user is concerned: unlike a purge of other memories, this needs no lock of the user alone.
CREATE FUNCTION purge_chunks(p_tenant uuid, p_ids uuid[], p_actor text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
BEGIN
    PERFORM 1 FROM memories WHERE tenant_id = p_tenant AND id = ANY (p_ids) AND type = 'chunk' ORDER BY id FOR UPDATE;
    v_ids := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND id = ANY (p_ids) AND type = 'chunk'
        ORDER BY id);
    PERFORM blank_history(p_tenant, v_ids);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    DELETE FROM memories WHERE tenant_id = p_tenant AND id = ANY (v_ids::uuid[]);
END $$;
GRANT EXECUTE ON FUNCTION hold_source(uuid, uuid, uuid, text), begin_index_job(uuid, uuid),
    purge_chunks(uuid, uuid[], text)
    TO mnema_app;

-- An index job fails with its job in the queue, also if no worker lives to say so.
CREATE FUNCTION fail_index_job() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE index_jobs SET state = 'failed', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
            error = coalesce(new.last_error, 'job_failed')
        WHERE tenant_id = new.tenant_id AND id = (new.payload->>'index_job_id')::uuid
            AND state IN ('queued', 'running');
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_index_failed AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (new.kind = 'index_source' AND new.state = 'dead' AND old.state <> 'dead') EXECUTE FUNCTION fail_index_job();
