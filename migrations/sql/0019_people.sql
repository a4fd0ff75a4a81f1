-- An item without a user_id belongs to every user whom its namespace or its key names: a label, or the key, is the user's
-- id. The tenant stands before each name, so that the index finds those of one tenant.
CREATE FUNCTION store_names(p_tenant uuid, p_path text, p_key text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN string_to_array(p_tenant::text || replace(p_path, E'\x01', E'\x01' || p_tenant::text) || p_key, E'\x01');
GRANT EXECUTE ON FUNCTION store_names(uuid, text, text) TO mnema_app, mnema_search;
CREATE INDEX store_items_names ON store_items USING gin (store_names(tenant_id, path, key)) WHERE user_id IS NULL;

-- `@>` of arrays is not leakproof, so under row-level security its index is refused. This function reaches it; it takes
-- the tenant from the transaction, never from a parameter.
CREATE FUNCTION items_naming(p_user text) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT i.id FROM store_items i WHERE i.tenant_id = current_tenant() AND i.user_id IS NULL
        AND store_names(i.tenant_id, i.path, i.key) @> ARRAY[current_tenant()::text || p_user];
$$;
GRANT EXECUTE ON FUNCTION items_naming(text) TO mnema_app;
GRANT SELECT ON store_items TO mnema_search;
CREATE POLICY search ON store_items FOR SELECT TO mnema_search USING (true);
GRANT CREATE ON SCHEMA public TO mnema_search;
ALTER FUNCTION items_naming(text) OWNER TO mnema_search;
REVOKE CREATE ON SCHEMA public FROM mnema_search;

-- Replaces the ids of a user's threads before the user is erased; answers how many. A thread that others use keeps its
-- id: the user's rows in its change log leave it, but for its oldest, which says how far back the log reaches. A random
-- id, not a hash: nothing needs to find it again. The caller holds the user's row and memories locked.
CREATE FUNCTION erase_threads(p_tenant uuid, p_user text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_ids text[] := ARRAY (SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk);
    v_threads text[] := ARRAY (
        SELECT thread_id FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM change_log WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
        UNION SELECT thread_id FROM events WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM context_questions WHERE tenant_id = p_tenant AND user_id = p_user
        UNION SELECT thread_id FROM delta_cursors WHERE tenant_id = p_tenant AND user_id = p_user);
    v_new jsonb;
BEGIN
    -- sorted, as writers lock them; one that is being written is waited for, and counts below if it is another's
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads) ORDER BY thread_id FOR UPDATE;
    SELECT coalesce(jsonb_object_agg(t, 'erased:' || gen_random_uuid()), '{}') INTO v_new FROM unnest(v_threads) t;
    UPDATE change_log c SET thread_id = v_new->>c.thread_id
        WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
          AND rev > (SELECT min(o.rev) FROM change_log o WHERE o.tenant_id = p_tenant AND o.thread_id = c.thread_id);
    SELECT coalesce(jsonb_object_agg(t, v_new->>t), '{}') INTO v_new FROM unnest(v_threads) t
        WHERE NOT EXISTS (SELECT FROM memories WHERE tenant_id = p_tenant AND thread_id = t AND user_pk IS DISTINCT FROM v_pk)
          AND NOT EXISTS (SELECT FROM context_questions WHERE tenant_id = p_tenant AND thread_id = t AND user_id <> p_user)
          AND t NOT IN (SELECT thread_id FROM reflections WHERE tenant_id = p_tenant AND user_id <> p_user);
    v_threads := ARRAY (SELECT jsonb_object_keys(v_new));
    UPDATE change_log SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE thread_revision SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE delta_cursors SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE events SET thread_id = v_new->>thread_id
        WHERE tenant_id = p_tenant AND user_id IS NULL AND thread_id = ANY (v_threads);
    RETURN cardinality(v_threads);
END $$;
GRANT EXECUTE ON FUNCTION erase_threads(uuid, text) TO mnema_app;
GRANT UPDATE (thread_id) ON change_log, events TO mnema_app;

DROP INDEX api_keys_hash;
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);

CREATE TABLE installation (                         -- one row, of no tenant
    only_row            boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    secret_fingerprint  bytea NOT NULL              -- of MNEMA_SECRET_KEY: replicas that have another are told
);
GRANT SELECT, INSERT ON installation TO mnema_app;
