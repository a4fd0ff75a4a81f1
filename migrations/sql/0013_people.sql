-- Whose a retry key's record is, so that it is exported and erased with them; that of a write which stored nothing has no
-- memory to be found by.
ALTER TABLE idempotency_keys ADD COLUMN user_id text;
ALTER TABLE idempotency_keys NO FORCE ROW LEVEL SECURITY;  -- or the owner would change nothing, in silence
ALTER TABLE memories NO FORCE ROW LEVEL SECURITY;
ALTER TABLE context_patches NO FORCE ROW LEVEL SECURITY;
UPDATE idempotency_keys k SET user_id = m.user_id FROM memories m
    WHERE m.tenant_id = k.tenant_id AND m.id = (k.response->>'id')::uuid;
UPDATE idempotency_keys k SET user_id = p.user_id FROM context_patches p
    WHERE p.tenant_id = k.tenant_id AND p.id = (k.response->>'id')::uuid;
ALTER TABLE idempotency_keys FORCE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
ALTER TABLE context_patches FORCE ROW LEVEL SECURITY;
CREATE INDEX idempotency_keys_of_user ON idempotency_keys (tenant_id, user_id) WHERE user_id IS NOT NULL;

-- What is kept for a time is dropped oldest first.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (tenant_id, created_at);
CREATE INDEX jobs_ended ON jobs (tenant_id, updated_at) WHERE state IN ('done', 'dead');

-- Idempotency: a second caller with the same key waits here for the first one's commit. NULL when all keys are new.
-- p_keys: [{key_id, route, key, body_hash, user_id, …}].
CREATE OR REPLACE FUNCTION claim_keys(p_tenant uuid, p_keys jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    r idempotency_keys;
    v_count int;
BEGIN
    WITH known AS MATERIALIZED (  -- an erasure waits for this, or this for it
        SELECT user_id FROM users WHERE tenant_id = p_tenant
        AND user_id IN (SELECT k->>'user_id' FROM jsonb_array_elements(p_keys) k) ORDER BY user_id FOR KEY SHARE)
    INSERT INTO idempotency_keys (tenant_id, key_id, route, key, body_hash, user_id, response)
        SELECT p_tenant, k.key_id, k.route, k.key, k.body_hash,
               -- work of our own (no API key) may end after the erasure: it does not name them again
               CASE WHEN k.key_id = '00000000-0000-0000-0000-000000000000' THEN n.user_id ELSE k.user_id END, '{}'
        FROM jsonb_to_recordset(p_keys) AS k(key_id uuid, route text, key text, body_hash bytea, user_id text)
        LEFT JOIN known n ON n.user_id = k.user_id
        ORDER BY k.key_id, k.route, k.key ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count = jsonb_array_length(p_keys) THEN RETURN NULL; END IF;
    IF jsonb_array_length(p_keys) > 1 THEN RAISE EXCEPTION 'used before' USING ERRCODE = 'MN425'; END IF;
    SELECT * INTO r FROM idempotency_keys WHERE tenant_id = p_tenant AND key_id = (p_keys#>>'{0,key_id}')::uuid
        AND route = p_keys#>>'{0,route}' AND key = p_keys#>>'{0,key}';
    RETURN jsonb_build_object('replay', r.response, 'same_body', r.body_hash = (p_keys#>>'{0,body_hash}')::bytea);
END $$;

-- Everything of one user goes; history and change_log rows stay without text. The caller holds the user's row locked,
-- so that nothing is written for the user meanwhile. Answers what went, by table.
CREATE OR REPLACE FUNCTION erase_user(p_tenant uuid, p_user text, p_hashes bytea[], p_actor text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_ids text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user));
    v_done jsonb := jsonb_build_object('memories', cardinality(v_ids));
    v_count int;
BEGIN
    INSERT INTO tombstones (tenant_id, hash) SELECT p_tenant, h FROM unnest(p_hashes) h ON CONFLICT DO NOTHING;
    UPDATE history SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('history_blanked', v_count);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i, 'PURGE', p_actor FROM unnest(v_ids) i;
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('changes_blanked', v_count);
    DELETE FROM relations WHERE tenant_id = p_tenant AND (from_id = ANY (v_ids) OR to_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('relations', v_count);
    DELETE FROM events WHERE tenant_id = p_tenant AND (user_id = p_user OR memory_id = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant
        AND (user_id = p_user OR user_id IS NULL AND response->>'id' = ANY (v_ids));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    DELETE FROM jobs WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    DELETE FROM supervisor_checkpoints WHERE tenant_id = p_tenant AND user_id = p_user;
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('checkpoints', v_count);
    DELETE FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user);
    DELETE FROM users WHERE tenant_id = p_tenant AND user_id = p_user;
    RETURN v_done;
END $$;

-- Drops what is kept only for a time, at most p_limit rows of each table, the oldest first: revisions beyond the newest
-- p_revisions of a thread, old events and dead jobs, old idempotency records and finished jobs. Answers how many went, by
-- table; with p_dry_run how many there are, all of them.
DROP FUNCTION expire_records(uuid, bigint, timestamptz, timestamptz, boolean);
CREATE FUNCTION expire_records(p_tenant uuid, p_revisions bigint, p_events timestamptz, p_keys timestamptz, p_limit int,
                               p_dry_run boolean) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_done jsonb := '{}';
    v_count int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_dry_run THEN
        RETURN jsonb_build_object(
            'change_log', (SELECT count(*) FROM change_log c JOIN thread_revision t USING (tenant_id, thread_id)
                           WHERE c.tenant_id = p_tenant AND c.rev <= t.rev - p_revisions),
            'events', (SELECT count(*) FROM events WHERE tenant_id = p_tenant AND ts < p_events),
            'idempotency_keys', (SELECT count(*) FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys),
            'jobs', (SELECT count(*) FROM jobs WHERE tenant_id = p_tenant AND (state = 'done' AND updated_at < p_keys
                                                                            OR state = 'dead' AND updated_at < p_events)));
    END IF;
    DELETE FROM change_log WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT o.id FROM thread_revision t CROSS JOIN LATERAL (
            SELECT c.id FROM change_log c
            WHERE c.tenant_id = p_tenant AND c.thread_id = t.thread_id AND c.rev <= t.rev - p_revisions
            ORDER BY c.rev LIMIT p_limit) o
        WHERE t.tenant_id = p_tenant AND t.rev > p_revisions LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('change_log', v_count);
    DELETE FROM events WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM events WHERE tenant_id = p_tenant AND ts < p_events ORDER BY ts LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND ctid = ANY (ARRAY (
        SELECT ctid FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys
        ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    DELETE FROM jobs WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM jobs WHERE tenant_id = p_tenant AND state IN ('done', 'dead')
            AND updated_at < CASE state WHEN 'done' THEN p_keys ELSE p_events END AND updated_at < greatest(p_keys, p_events)
        ORDER BY updated_at LIMIT p_limit FOR UPDATE SKIP LOCKED));  -- what is put back just now is not taken
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    RETURN v_done;
END $$;
GRANT EXECUTE ON FUNCTION expire_records(uuid, bigint, timestamptz, timestamptz, int, boolean) TO mnema_app;
