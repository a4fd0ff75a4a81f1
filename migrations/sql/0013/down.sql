-- The bodies of before.

-- Make past_<space> with its functions; it is filled later. Each row is one memory as a search compared it from `since`
-- until `until`. `today` is the category that it has now: a key must see both.
CREATE OR REPLACE FUNCTION create_past(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_tenant record;
BEGIN
    EXECUTE format('CREATE TABLE %I (
        tenant_id uuid NOT NULL, user_pk bigint NOT NULL, memory_id uuid NOT NULL, since timestamptz NOT NULL,
        until timestamptz NOT NULL, category text NOT NULL, today text NOT NULL, state text NOT NULL,
        expires_at timestamptz, embedding halfvec(%s), tokens bytea STORAGE EXTERNAL, tsv tsvector NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, until),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id) ON DELETE CASCADE
    )', 'past_' || p_name,
        (SELECT dimension FROM embedding_spaces WHERE name = p_name));
    EXECUTE format('CREATE INDEX ON %I (tenant_id, user_pk, until, since) INCLUDE (memory_id)',
        'past_' || p_name);
    PERFORM plan_for_largest_tenant(format('%I', 'past_' || p_name)::regclass);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', 'past_' || p_name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', 'past_' || p_name);
    EXECUTE format($p$CREATE POLICY tenant ON %I
        USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
        WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, 'past_' || p_name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mnema_app', 'past_' || p_name);
    EXECUTE fill_places($ddl$
{{../0007/spaces/keep_past.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{../0007/spaces/fill_past.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{../0007/spaces/recall_at.sql}}
    $ddl$, jsonb_build_object(
        'vector_then', $then$CROSS JOIN LATERAL (
                SELECT CASE WHEN p.until IS NULL THEN v.embedding ELSE p.embedding END AS embedding,
                       CASE WHEN p.until IS NULL THEN v.tokens ELSE p.tokens END AS tokens
                FROM (SELECT) one
                LEFT JOIN past_{space} p ON p.tenant_id = p_tenant AND p.memory_id = f.id AND p.until > v_at
                    AND p.since <= v_at
                LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id) y$then$,
        'words_then', $then$JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
            CROSS JOIN LATERAL (SELECT coalesce((SELECT p.tsv FROM past_{space} p WHERE p.tenant_id = p_tenant
                AND p.memory_id = f.id AND p.until > v_at AND p.since <= v_at), m.tsv) AS tsv) y$then$,
        'space', p_name));
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP  -- row-level security binds the owner too
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        INSERT INTO history_fills (tenant_id, space) VALUES (v_tenant.id, p_name)
            -- a space of this name was dropped before
            ON CONFLICT (tenant_id, space) DO UPDATE SET began = now(), after_id = NULL;
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $space$;

CREATE OR REPLACE FUNCTION create_recall_at(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{../0007/spaces/recall_at.sql}}
    $ddl$, jsonb_build_object(
        'vector_then', $then$CROSS JOIN LATERAL (
                SELECT CASE WHEN p.until IS NULL THEN v.embedding ELSE p.embedding END AS embedding,
                       CASE WHEN p.until IS NULL THEN v.tokens ELSE p.tokens END AS tokens
                FROM (SELECT) one
                LEFT JOIN past_{space} p ON p.tenant_id = p_tenant AND p.memory_id = f.id AND p.until > v_at
                    AND p.since <= v_at
                LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id) y$then$,
        'words_then', $then$JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
            CROSS JOIN LATERAL (SELECT coalesce((SELECT p.tsv FROM past_{space} p WHERE p.tenant_id = p_tenant
                AND p.memory_id = f.id AND p.until > v_at AND p.since <= v_at), m.tsv) AS tsv) y$then$,
        'space', p_name));
END $space$;

SELECT create_recall_at(name) FROM embedding_spaces;
DROP FUNCTION create_recall_at(text);
