CREATE TABLE conv_messages (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    user_id text NOT NULL,
    conversation_id text NOT NULL,
    turn_id text,
    track_id text,
    kind text NOT NULL,
    place text NOT NULL,
    text text NOT NULL,
    tags text[] NOT NULL,
    hosted_uri text,
    version bigint NOT NULL DEFAULT 1,
    reconciled_version bigint,
    made_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT conv_messages_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT conv_messages_tenant_id_user_id_conversation_id_kind_place_key UNIQUE (tenant_id, user_id, conversation_id, kind, place),
    CONSTRAINT conv_messages_tenant_id_hosted_uri_fkey FOREIGN KEY (tenant_id, hosted_uri) REFERENCES blobs(tenant_id, uri),
    CONSTRAINT conv_messages_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id),
    CONSTRAINT conv_messages_check CHECK ((hosted_uri IS NOT NULL) = (kind = ANY (ARRAY['artifact:turn.log'::text, 'conversation.memory.bucket.v1'::text]))),
    CONSTRAINT conv_messages_kind_check CHECK (kind = ANY (ARRAY['artifact:turn.log'::text, 'artifact:turn.fingerprint.v1'::text, 'artifact:turn.log.reaction'::text, 'conversation.active_set.v1'::text, 'conversation.memory.bucket.v1'::text, 'conv.start'::text]))
);

CREATE INDEX conv_messages_blob ON conv_messages USING btree (tenant_id, hosted_uri) WHERE hosted_uri IS NOT NULL;
CREATE INDEX conv_messages_by_age ON conv_messages USING btree (tenant_id, made_at);
CREATE INDEX conv_messages_newest ON conv_messages USING btree (tenant_id, user_id, conversation_id, kind, made_at DESC, id DESC);
CREATE INDEX conv_messages_reactions ON conv_messages USING btree (tenant_id, user_id, conversation_id, turn_id) WHERE kind = 'artifact:turn.log.reaction'::text;
CREATE INDEX conv_messages_signals ON conv_messages USING btree (tenant_id, user_id, made_at DESC, id DESC) WHERE kind = 'artifact:turn.fingerprint.v1'::text AND tags @> '{assistant_signal}'::text[];
CREATE INDEX conv_messages_tags ON conv_messages USING gin ((tags || ARRAY['_t'::text || tenant_id::text, '_u'::text || user_id]));
CREATE INDEX conv_messages_waiting ON conv_messages USING btree (tenant_id, user_id, conversation_id, made_at) WHERE kind = 'artifact:turn.fingerprint.v1'::text AND reconciled_version IS DISTINCT FROM version;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON conv_messages FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE conv_messages DISABLE TRIGGER at_home;
