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

-- Return a new UUIDv7, which begins with the milliseconds of now (PostgreSQL has uuidv7() from 18 on).
CREATE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
            || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid;
GRANT EXECUTE ON FUNCTION new_id() TO mnema_app;
