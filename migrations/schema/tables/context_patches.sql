CREATE TABLE context_patches (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    user_id text NOT NULL,
    field text NOT NULL,
    value text NOT NULL,
    value_key bytea NOT NULL,
    sensitive boolean NOT NULL,
    state text NOT NULL DEFAULT 'pending'::text,
    signals jsonb NOT NULL,
    actor text NOT NULL,
    thread_id text,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    decided_at timestamp with time zone,
    decided_by text,
    way text,
    decided_stamp bigint,
    keys uuid[] NOT NULL DEFAULT '{}'::uuid[],
    answer_id uuid,
    CONSTRAINT context_patches_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT context_patches_tenant_id_user_id_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES users(tenant_id, user_id),
    CONSTRAINT context_patches_answer CHECK ((way = 'chat'::text) IS NOT TRUE OR answer_id IS NOT NULL),
    CONSTRAINT context_patches_check CHECK (sensitive OR (field <> ALL (ARRAY['preferred_name'::text, 'pronouns'::text, 'city'::text, 'language'::text]))),
    CONSTRAINT context_patches_check1 CHECK (
CASE state
    WHEN 'pending'::text THEN num_nonnulls(decided_at, decided_by, way) = 0
    ELSE num_nulls(decided_at, decided_by, way) = 0
END),
    CONSTRAINT context_patches_check2 CHECK (
CASE state
    WHEN 'approved'::text THEN (way = ANY (ARRAY['route'::text, 'chat'::text])) AND decided_at < expires_at
    WHEN 'rejected'::text THEN (way = ANY (ARRAY['route'::text, 'chat'::text])) AND decided_at < expires_at
    WHEN 'applied'::text THEN (way = ANY (ARRAY['signals'::text, 'insight'::text])) AND decided_at < expires_at AND NOT sensitive
    WHEN 'expired'::text THEN way = 'expiry'::text AND decided_at >= expires_at
    ELSE true
END),
    CONSTRAINT context_patches_field_check CHECK (field ~ '^[a-z][a-z_]{0,63}$'::text),
    CONSTRAINT context_patches_state_check CHECK (state = ANY (ARRAY['pending'::text, 'approved'::text, 'rejected'::text, 'expired'::text, 'applied'::text])),
    CONSTRAINT context_patches_value_check CHECK (length(value) >= 1 AND length(value) <= 500),
    CONSTRAINT context_patches_way_check CHECK (way = ANY (ARRAY['route'::text, 'chat'::text, 'signals'::text, 'insight'::text, 'expiry'::text]))
);

CREATE INDEX context_patches_by_user ON context_patches USING btree (tenant_id, user_id, created_at DESC, id DESC);
CREATE INDEX context_patches_due ON context_patches USING btree (tenant_id, expires_at) WHERE state = 'pending'::text;
CREATE UNIQUE INDEX context_patches_pending ON context_patches USING btree (tenant_id, user_id, field, value_key) WHERE state = 'pending'::text;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON context_patches FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE context_patches DISABLE TRIGGER at_home;
CREATE TRIGGER context_patches_decide_once BEFORE UPDATE ON context_patches FOR EACH ROW EXECUTE FUNCTION decide_once();
CREATE CONSTRAINT TRIGGER context_patches_tripwire AFTER INSERT OR DELETE OR UPDATE ON context_patches DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();
