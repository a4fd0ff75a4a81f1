-- Reading: the one definition of the filters, full text under row-level security, and the cross-tenant look-ups.

-- Filters of seed 003 §6. Absent or null = no filter. Kept a single SQL expression so that the planner inlines it.
CREATE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        AND (f->>'type' IS NULL OR m.type = f->>'type')
        AND (f->>'tag' IS NULL OR m.tags @> ARRAY[f->>'tag'])
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
    );

CREATE FUNCTION user_pk_of(p_tenant uuid, p_user text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT user_pk FROM users WHERE tenant_id = p_tenant AND user_id = p_user);

-- Any of the words, stemmed; NULL when nothing but stop words is left. At most 64 words count.
CREATE FUNCTION any_word(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery
        FROM (SELECT lexeme FROM unnest(to_tsvector('english', p_query)) ORDER BY positions[1] LIMIT 64) w
    );

-- `@@` is not leakproof, so under row-level security its index is refused. This function reaches it; it takes the
-- tenant from the transaction, never from a parameter, and applies the caller's filters itself.
CREATE FUNCTION search_lexical(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid, rank real) LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := current_tenant();
    v_words tsquery := any_word(p_query);
    v_scope tsquery;
BEGIN
    IF v_tenant IS NULL OR v_words IS NULL THEN RETURN; END IF;
    v_scope := ('''_t' || replace(v_tenant::text, '-', '') || '''')::tsquery;
    IF p_user IS NOT NULL THEN v_scope := v_scope && ('''_u' || p_user::text || '''')::tsquery; END IF;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM memories m
        WHERE m.tsv @@ (v_scope && v_words) AND m.tenant_id = v_tenant AND m.state = 'active'
          AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $$;

CREATE FUNCTION authenticate(p_key_hash bytea)
    RETURNS TABLE (tenant_id uuid, key_id uuid, agents text[], scopes text[], expires_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT k.tenant_id, k.id, k.agents, k.scopes, k.expires_at FROM api_keys k
    WHERE k.key_hash = p_key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());
$$;

CREATE FUNCTION list_tenants() RETURNS TABLE (id uuid, name text, created_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT t.id, t.name, t.created_at FROM tenants t ORDER BY t.name;
$$;

GRANT EXECUTE ON FUNCTION current_tenant(), memory_matches(memories, jsonb), any_word(text) TO mnema_app, mnema_search;
GRANT EXECUTE ON FUNCTION user_pk_of(uuid, text) TO mnema_app;
GRANT EXECUTE ON FUNCTION search_lexical(bigint, text, text[], jsonb, int), authenticate(bytea), list_tenants() TO mnema_app;

-- An owner-owned definer function still obeys FORCE; these belong to roles of their own that may only look.
GRANT SELECT ON memories TO mnema_search;
CREATE POLICY search ON memories FOR SELECT TO mnema_search USING (true);
GRANT SELECT ON tenants, api_keys TO mnema_auth;
CREATE POLICY auth ON tenants FOR SELECT TO mnema_auth USING (true);
CREATE POLICY auth ON api_keys FOR SELECT TO mnema_auth USING (true);
GRANT CREATE ON SCHEMA public TO mnema_search, mnema_auth;
ALTER FUNCTION search_lexical(bigint, text, text[], jsonb, int) OWNER TO mnema_search;
ALTER FUNCTION authenticate(bytea) OWNER TO mnema_auth;
ALTER FUNCTION list_tenants() OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_search, mnema_auth;
