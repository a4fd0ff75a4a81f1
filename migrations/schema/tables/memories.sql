CREATE TABLE memories (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    user_pk bigint NOT NULL,
    user_id text NOT NULL,
    thread_id text,
    seq bigint,
    agent_id text,
    run_id text,
    actor_id text,
    role text,
    type text NOT NULL,
    category text NOT NULL,
    text text NOT NULL,
    steps_text text,
    text_hash bytea NOT NULL,
    importance smallint NOT NULL,
    pinned boolean NOT NULL,
    tags text[] NOT NULL,
    state text NOT NULL,
    source jsonb,
    metadata jsonb NOT NULL,
    superseded_by uuid,
    purge_at timestamp with time zone,
    version integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone NOT NULL DEFAULT now(),
    fact_topic text,
    expires_at timestamp with time zone,
    tsv tsvector NOT NULL,
    language text,
    valid_from timestamp with time zone,
    valid_to timestamp with time zone,
    origin text,
    CONSTRAINT memories_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT memories_tenant_id_user_pk_fkey FOREIGN KEY (tenant_id, user_pk) REFERENCES users(tenant_id, user_pk),
    CONSTRAINT memories_check CHECK ((type = 'procedural'::text) = (category = 'procedural'::text)),
    CONSTRAINT memories_check1 CHECK ((type = 'procedural'::text) = (steps_text IS NOT NULL)),
    CONSTRAINT memories_importance_check CHECK (importance >= 1 AND importance <= 5),
    CONSTRAINT memories_origin_check CHECK (origin = ANY (ARRAY['api'::text, 'mirror'::text, 'import'::text, 'turn'::text, 'chat'::text, 'capture'::text, 'facts'::text, 'reflection'::text, 'document'::text])),
    CONSTRAINT memories_state_check CHECK (state = ANY (ARRAY['active'::text, 'superseded'::text, 'retracted'::text, 'expired'::text, 'soft_deleted'::text])),
    CONSTRAINT memories_text_check CHECK (text <> ''::text),
    CONSTRAINT memories_type_check CHECK (type = ANY (ARRAY['semantic'::text, 'episodic'::text, 'procedural'::text, 'insight'::text, 'turn'::text, 'summary'::text, 'chunk'::text])),
    CONSTRAINT memories_valid_span CHECK (valid_from < valid_to)
);

CREATE INDEX memories_by_actor ON memories USING btree (tenant_id, actor_id, created_at DESC, id DESC) WHERE actor_id IS NOT NULL;
CREATE INDEX memories_by_agent ON memories USING btree (tenant_id, agent_id, created_at DESC, id DESC) WHERE agent_id IS NOT NULL;
CREATE INDEX memories_by_category ON memories USING btree (tenant_id, category, state);
CREATE INDEX memories_by_created ON memories USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX memories_by_importance ON memories USING btree (tenant_id, state, importance, created_at, id);
CREATE INDEX memories_by_language ON memories USING btree (tenant_id, language, created_at DESC, id DESC) WHERE language IS NOT NULL;
CREATE INDEX memories_by_role ON memories USING btree (tenant_id, role, created_at DESC, id DESC) WHERE role IS NOT NULL;
CREATE INDEX memories_by_run ON memories USING btree (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX memories_by_thread ON memories USING btree (tenant_id, thread_id, seq, created_at, id) WHERE thread_id IS NOT NULL;
CREATE INDEX memories_by_type ON memories USING btree (tenant_id, type, created_at DESC, id DESC);
CREATE INDEX memories_by_updated ON memories USING btree (tenant_id, state, updated_at, id);
CREATE INDEX memories_by_user ON memories USING btree (tenant_id, user_pk, created_at DESC, id DESC);
CREATE INDEX memories_chunks ON memories USING btree (tenant_id, user_pk) INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance, updated_at) WHERE state = 'active'::text AND type = 'chunk'::text;
CREATE INDEX memories_expiring ON memories USING btree (tenant_id, expires_at, user_pk) WHERE state = 'active'::text AND expires_at IS NOT NULL;
CREATE INDEX memories_filtered ON memories USING btree (tenant_id, user_pk) INCLUDE (id, category, type, thread_id, agent_id, run_id, actor_id, role, tags, pinned, importance, updated_at, stored_at) WHERE state = 'active'::text AND type <> 'chunk'::text;
CREATE INDEX memories_instructions ON memories USING btree (tenant_id, user_pk, created_at DESC, id DESC) WHERE state = 'active'::text AND ('standing-instruction'::text = ANY (tags));
CREATE INDEX memories_labels ON memories USING gin (labels_of(tenant_id, tags, metadata) jsonb_path_ops) WHERE state = 'active'::text AND (tags <> '{}'::text[] OR metadata <> '{}'::jsonb);
CREATE INDEX memories_numbers ON memories USING gin (number_labels(tenant_id, metadata)) WITH (gin_pending_list_limit='64') WHERE state = 'active'::text AND metadata @? 'strict $.**?(@.type() == "number")'::jsonpath;
CREATE INDEX memories_pinned ON memories USING btree (tenant_id, created_at DESC, id DESC) WHERE pinned;
CREATE INDEX memories_purgeable ON memories USING btree (tenant_id, purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX memories_summaries ON memories USING btree (tenant_id, user_pk, thread_id) WHERE type = 'summary'::text AND state = 'active'::text;
CREATE INDEX memories_tsv ON memories USING gin (tsv);
CREATE UNIQUE INDEX memories_active_text ON memories USING btree (tenant_id, user_pk, category, text_hash) WHERE type = 'semantic'::text AND state = 'active'::text;
CREATE UNIQUE INDEX memories_of_facts ON memories USING btree (tenant_id, user_pk, fact_topic) WHERE fact_topic IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON memories FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE memories DISABLE TRIGGER at_home;
CREATE TRIGGER memories_counted_delete AFTER DELETE ON memories REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_memories();
CREATE TRIGGER memories_counted_insert AFTER INSERT ON memories REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_memories();
CREATE TRIGGER memories_counted_update AFTER UPDATE ON memories REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_memories();
CREATE CONSTRAINT TRIGGER memories_tripwire AFTER INSERT OR DELETE OR UPDATE ON memories DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_change();
CREATE TRIGGER memories_words BEFORE INSERT OR UPDATE ON memories FOR EACH ROW EXECUTE FUNCTION index_words();
ALTER TABLE memories ENABLE ALWAYS TRIGGER memories_words;
