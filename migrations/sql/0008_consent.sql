-- Consent (seed 003 §10): what is known of a user (user_context) is changed by decided proposals (context_patches) alone.
-- The database holds that itself: whoever writes these tables past the application is refused.
CREATE TABLE context_patches (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,
    user_id      text NOT NULL,
    field        text NOT NULL CHECK (field ~ '^[a-z][a-z_]{0,63}$'),
    value        text NOT NULL CHECK (length(value) BETWEEN 1 AND 500),
    value_key    bytea NOT NULL,                    -- two values that say the same have the same
    sensitive    boolean NOT NULL,
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'applied')),
    signals      jsonb NOT NULL,                    -- the memories it was learnt from
    actor        text NOT NULL,                     -- who proposed it
    thread_id    text,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    decided_at   timestamptz,
    decided_by   text,
    way          text CHECK (way IN ('route', 'chat', 'signals', 'insight', 'expiry')),
    decided_xid  xid8,
    PRIMARY KEY (tenant_id, id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id),
    -- configuration may call more fields sensitive, never fewer
    CHECK (sensitive OR field NOT IN ('preferred_name', 'pronouns', 'city', 'language')),
    CHECK (CASE state WHEN 'pending' THEN num_nonnulls(decided_at, decided_by, way) = 0
                      ELSE num_nulls(decided_at, decided_by, way) = 0 END),
    CHECK (CASE state WHEN 'approved' THEN way IN ('route', 'chat') AND decided_at < expires_at
                      WHEN 'rejected' THEN way IN ('route', 'chat') AND decided_at < expires_at
                      WHEN 'applied' THEN way IN ('signals', 'insight') AND decided_at < expires_at AND NOT sensitive
                      WHEN 'expired' THEN way = 'expiry' AND decided_at >= expires_at ELSE true END)
);
CREATE UNIQUE INDEX context_patches_pending ON context_patches (tenant_id, user_id, field, value_key) WHERE state = 'pending';
CREATE INDEX context_patches_by_user ON context_patches (tenant_id, user_id, created_at DESC, id DESC);
CREATE INDEX context_patches_due ON context_patches (tenant_id, expires_at) WHERE state = 'pending';

CREATE TABLE user_context (
    tenant_id   uuid NOT NULL,
    user_id     text NOT NULL,
    field       text NOT NULL,
    item        text NOT NULL CHECK (item = '' OR field LIKE '%\_add'),  -- only what is added to may hold several values
    value       text NOT NULL,
    patch_id    uuid NOT NULL,                      -- the proposal that put it here
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, user_id, field, item),
    FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches (tenant_id, id)
);
CREATE UNIQUE INDEX user_context_patch ON user_context (tenant_id, patch_id);

CREATE TABLE context_questions (                    -- the one open question of a thread, and of a proposal
    tenant_id  uuid NOT NULL,
    thread_id  text NOT NULL,
    user_id    text NOT NULL,
    patch_id   uuid NOT NULL,
    question   text NOT NULL CHECK (length(question) BETWEEN 1 AND 1000),
    rev        bigint NOT NULL,                     -- of the thread when it was asked: whatever is said later has a higher one
    asked_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id),
    FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX context_questions_patch ON context_questions (tenant_id, patch_id);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['context_patches', 'user_context', 'context_questions'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;
-- a proposal begins undecided, and what it says never changes
GRANT SELECT, DELETE, INSERT (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor, thread_id, created_at,
      expires_at), UPDATE (state, signals, decided_at, decided_by, way) ON context_patches TO mnema_app;
GRANT SELECT, INSERT, DELETE, UPDATE (value, patch_id, updated_at) ON user_context TO mnema_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON context_questions TO mnema_app;

-- A decision is made once, and is known by its transaction.
CREATE FUNCTION decide_once() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF old.state <> 'pending' AND new IS DISTINCT FROM old THEN
        RAISE EXCEPTION 'the proposal is %', old.state USING ERRCODE = 'MN409';
    END IF;
    IF old.state = 'pending' AND new.state <> 'pending' THEN new.decided_xid := pg_current_xact_id(); END IF;
    RETURN new;
END $$;
CREATE TRIGGER context_patches_decide_once BEFORE UPDATE ON context_patches FOR EACH ROW EXECUTE FUNCTION decide_once();

-- A value is put only by the proposal that says so, and only in the transaction that decides it: an old decision cannot be
-- used again.
CREATE FUNCTION refuse_undecided_value() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' AND new IS NOT DISTINCT FROM old THEN RETURN NULL; END IF;
    PERFORM 1 FROM context_patches p
      WHERE p.tenant_id = new.tenant_id AND p.id = new.patch_id AND p.user_id = new.user_id AND p.field = new.field
        AND p.value = new.value AND p.state IN ('approved', 'applied') AND p.decided_xid = pg_current_xact_id();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no proposal decided in this transaction puts this value' USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER user_context_decided AFTER INSERT OR UPDATE ON user_context  -- after: row-level security comes first
    FOR EACH ROW EXECUTE FUNCTION refuse_undecided_value();

-- The tripwire of memories, for consent: no proposal and no value changes or goes without history.
CREATE FUNCTION refuse_silent_consent() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r jsonb := to_jsonb(CASE WHEN tg_op = 'DELETE' THEN old ELSE new END);
BEGIN
    PERFORM 1 FROM history h
      WHERE h.tenant_id = (r->>'tenant_id')::uuid AND h.memory_id = coalesce(r->>'patch_id', r->>'id')
        AND h.xid = pg_current_xact_id();
    IF NOT FOUND THEN
        RAISE EXCEPTION '% of % was changed (%) without a history row in the same transaction',
            coalesce(r->>'patch_id', r->>'id'), tg_table_name, tg_op USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER context_patches_tripwire AFTER INSERT OR UPDATE OR DELETE ON context_patches
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();
CREATE CONSTRAINT TRIGGER user_context_tripwire AFTER INSERT OR UPDATE OR DELETE ON user_context
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();

-- The context of one user goes; history rows stay without text. Part of an erasure: the caller holds the user's row. The
-- proposals are locked first, so that what is written about one right now is blanked as well.
CREATE FUNCTION erase_consent(p_tenant uuid, p_user text, p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[];
    v_values int;
BEGIN
    PERFORM 1 FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user ORDER BY id FOR UPDATE;
    v_ids := ARRAY (SELECT id::text FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user);
    UPDATE history SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND response->>'id' = ANY (v_ids);
    DELETE FROM user_context WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_values = ROW_COUNT;
    DELETE FROM context_patches WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN jsonb_build_object('context_values', v_values, 'context_patches', cardinality(v_ids));
END $$;
GRANT EXECUTE ON FUNCTION erase_consent(uuid, text, text) TO mnema_app;
