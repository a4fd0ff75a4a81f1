-- Row-level security, grants and the tripwire. The application role owns nothing and bypasses nothing.

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('app.tenant_id', true), '')::uuid;
COMMENT ON FUNCTION current_tenant() IS 'Tenant of this transaction. After a commit the setting is '''', not NULL.';

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['api_keys', 'users', 'memories', 'memory_access', 'relations', 'thread_revision', 'change_log',
                             'delta_cursors', 'history', 'events', 'idempotency_keys', 'outbox', 'tombstones',
                             'supervisor_checkpoints']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        -- written out, not current_tenant(): an inlined expression keeps every index usable
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenants
    USING (id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (id = nullif(current_setting('app.tenant_id', true), '')::uuid);

GRANT USAGE ON SCHEMA public TO mnema_app, mnema_search, mnema_auth;
GRANT SELECT, INSERT ON tenants TO mnema_app;
GRANT SELECT (tenant_id, id, name, prefix, agents, scopes, created_at, expires_at, revoked_at),
      INSERT, UPDATE (revoked_at) ON api_keys TO mnema_app;
GRANT SELECT, INSERT, DELETE, UPDATE (created_at) ON users TO mnema_app;  -- UPDATE: to lock a row
GRANT SELECT, INSERT ON tombstones TO mnema_app;
GRANT SELECT, INSERT, DELETE ON memories TO mnema_app;
GRANT UPDATE (text, steps_text, text_hash, category, importance, pinned, tags, state, source, metadata, superseded_by,
              purge_at, version, updated_at) ON memories TO mnema_app;
GRANT SELECT ON embedding_spaces, alembic_version TO mnema_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_access, relations, delta_cursors, idempotency_keys, outbox,
      supervisor_checkpoints TO mnema_app;
GRANT SELECT, INSERT, UPDATE ON thread_revision TO mnema_app;
GRANT SELECT, INSERT, UPDATE (meta), DELETE ON change_log TO mnema_app;
-- xid is default-only: nobody can claim another transaction's history as theirs; rows are never deleted, only blanked
GRANT SELECT, INSERT (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts), UPDATE (meta) ON history TO mnema_app;
GRANT SELECT, INSERT, DELETE ON events TO mnema_app;

-- The tripwire: Python states the intent, the database refuses silence.
CREATE FUNCTION refuse_silent_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    r memories := CASE WHEN tg_op = 'DELETE' THEN old ELSE new END;
BEGIN
    PERFORM 1 FROM history h
      WHERE h.tenant_id = r.tenant_id AND h.memory_id = r.id::text AND h.xid = pg_current_xact_id();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'memory % was changed (%) without a history row in the same transaction', r.id, tg_op
            USING ERRCODE = 'MN001';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER memories_tripwire AFTER INSERT OR UPDATE OR DELETE ON memories
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_change();
