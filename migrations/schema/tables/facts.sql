CREATE TABLE facts (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    user_id text NOT NULL,
    thread_id text,
    topic_key text NOT NULL,
    kind text NOT NULL,
    rank integer,
    value text NOT NULL,
    value_key text NOT NULL,
    category text NOT NULL,
    source_message_id text,
    list_length integer,
    listed_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    doubted_at timestamp with time zone,
    removed_at timestamp with time zone,
    CONSTRAINT facts_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT facts_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id),
    CONSTRAINT facts_check CHECK ((kind = 'ranked'::text) = (rank IS NOT NULL)),
    CONSTRAINT facts_kind_check CHECK (kind = ANY (ARRAY['ranked'::text, 'single'::text])),
    CONSTRAINT facts_rank_check CHECK (rank >= 1),
    CONSTRAINT facts_topic_key_check CHECK (topic_key ~ '^[a-z0-9_]{1,100}$'::text),
    CONSTRAINT facts_value_check CHECK (length(value) >= 1 AND length(value) <= 1000)
);

CREATE INDEX facts_by_thread ON facts USING btree (tenant_id, user_id, thread_place(thread_id), created_at DESC) WHERE removed_at IS NULL;
CREATE INDEX facts_by_topic ON facts USING btree (tenant_id, user_id, topic_key, created_at DESC, updated_at DESC) WHERE removed_at IS NULL;
CREATE INDEX facts_purgeable ON facts USING btree (tenant_id, removed_at) WHERE removed_at IS NOT NULL;
CREATE UNIQUE INDEX facts_place ON facts USING btree (tenant_id, user_id, topic_key, thread_place(thread_id), kind, rank) NULLS NOT DISTINCT;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON facts FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE facts DISABLE TRIGGER at_home;
CREATE CONSTRAINT TRIGGER facts_tripwire AFTER INSERT OR DELETE OR UPDATE ON facts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_fact();
