DROP POLICY withdrawn ON moves;
DROP POLICY aborted ON moves;
DROP POLICY requested ON moves;
REVOKE INSERT (tenant_id, id, source, target, step, details), UPDATE (aborted_at, erasures_owed), DELETE
    ON moves FROM mnema_app;
DROP FUNCTION owed_erasures();
DROP FUNCTION request_move(uuid, uuid, text, int);
DROP FUNCTION has_mover();
DROP FUNCTION is_moved_now(uuid);
DO $$
DECLARE
    v_tenant uuid;
BEGIN
    IF EXISTS (SELECT FROM cluster c WHERE NOT c.keeps_directory) THEN
        RETURN;  -- the directory deletes them, and its copies follow
    END IF;
    FOR v_tenant IN SELECT t.id FROM list_tenants() t LOOP
        PERFORM set_config('app.tenant_id', v_tenant::text, true);
        DELETE FROM moves WHERE tenant_id = v_tenant AND step = 'requested';
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$;
ALTER TABLE moves DROP COLUMN erasures_owed;
ALTER TABLE moves DROP COLUMN aborted_at;
ALTER TABLE cluster DROP COLUMN mover_seen_at;
