CREATE TABLE delta_cursors (
    tenant_id uuid NOT NULL,
    thread_id text NOT NULL,
    agent text NOT NULL,
    rev bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    user_id text NOT NULL DEFAULT ''::text,
    key_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'::uuid,
    CONSTRAINT delta_cursors_pkey PRIMARY KEY (tenant_id, user_id, thread_id, agent, key_id)
) WITH (fillfactor=70);

CREATE INDEX delta_cursors_of_key ON delta_cursors USING btree (tenant_id, key_id) WHERE key_id <> '00000000-0000-0000-0000-000000000000'::uuid;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON delta_cursors FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE delta_cursors DISABLE TRIGGER at_home;
