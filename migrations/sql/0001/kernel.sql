-- What every other file relies on. The bootstrap (app/storage/operations/administration.py) made the roles and the
-- extension `vector`; the migration runs as mnema_owner, and the server, as mnema_app, owns nothing and bypasses
-- nothing.

-- A function can be called only by roles that it is granted to.
ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO mnema_app, mnema_search, mnema_auth, mnema_jobs;
GRANT SELECT ON alembic_version TO mnema_app;

CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('app.tenant_id', true), '')::uuid;
COMMENT ON FUNCTION current_tenant() IS 'Tenant of this transaction. After a commit the setting is '''', not NULL.';
GRANT EXECUTE ON FUNCTION current_tenant() TO mnema_app, mnema_search;

-- Return p_sql with each `{place}` replaced by its text. A space's functions are files with such places (spaces/).
-- The space's name comes last, because the other texts have its place too. It matches [a-z0-9_]+ and needs no quotes.
CREATE FUNCTION fill_places(p_sql text, p_places jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_place record;
BEGIN
    FOR v_place IN SELECT key, value FROM jsonb_each_text(p_places) ORDER BY key = 'space' LOOP
        p_sql := replace(p_sql, '{' || v_place.key || '}', v_place.value);
    END LOOP;
    RETURN p_sql;
END $$;

-- Return a new UUIDv7, which begins with the milliseconds of now (PostgreSQL has uuidv7() from 18 on).
CREATE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid;
GRANT EXECUTE ON FUNCTION new_id() TO mnema_app;
