-- What is still missing before the schema, each as the statement that makes it: run them in the order of `step`. A
-- query without rows has nothing left to do. The first three are asked in any database, the last one in Mnema's own.
-- `needed`: without it no migration works.
--
-- A role with CREATEROLE may not even name an attribute that only a superuser may give, so an attribute is named only
-- where it is wrong.

-- name: roles
SELECT 1 AS step, true AS needed, format('CREATE ROLE %I %s', w.role, w.kind) AS statement
FROM (VALUES ('mnema_owner', 'NOLOGIN'), ('mnema_search', 'NOLOGIN'), ('mnema_auth', 'NOLOGIN'),
             ('mnema_jobs', 'NOLOGIN'), ('mnema_partitions', 'NOLOGIN'), ('mnema_admin', 'LOGIN'),
             ('mnema_app', 'LOGIN NOINHERIT')) w(role, kind)
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = w.role)
UNION ALL
SELECT 2, true, format('ALTER ROLE mnema_app %s', p.cure)
FROM pg_roles r, LATERAL (VALUES (r.rolsuper, 'NOSUPERUSER'), (r.rolbypassrls, 'NOBYPASSRLS'),
    (r.rolcreatedb, 'NOCREATEDB'), (r.rolcreaterole, 'NOCREATEROLE'), (r.rolinherit, 'NOINHERIT')) p(held, cure)
WHERE r.rolname = 'mnema_app' AND p.held
UNION ALL
-- lock_timeout: a write of a user does not wait for their whole erasure.
-- enable_seqscan: migrations/sql/0001/planning.sql says why.
SELECT 3, true, format('ALTER ROLE mnema_app SET %I = %L', s.name, s.value)
FROM (VALUES ('jit', 'off'), ('lock_timeout', '5s'), ('enable_seqscan', 'off')) s(name, value)
WHERE NOT EXISTS (
    SELECT FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole
    WHERE r.rolname = 'mnema_app' AND d.setdatabase = 0 AND s.name || '=' || s.value = ANY (d.setconfig))
UNION ALL
SELECT 4, true, format('GRANT %I TO %I', g.role, g.member)
FROM (VALUES ('mnema_owner', 'mnema_admin'), ('mnema_search', 'mnema_owner'), ('mnema_auth', 'mnema_owner'),
             ('mnema_jobs', 'mnema_owner'), ('mnema_partitions', 'mnema_owner')) g(role, member)
WHERE NOT EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles o ON o.oid = m.member
    WHERE r.rolname = g.role AND o.rolname = g.member AND m.set_option)
UNION ALL
-- Who creates a role may administer it, but neither use its rights nor make it the owner of a database.
SELECT 5, false, format('GRANT mnema_owner TO %I WITH INHERIT TRUE, SET TRUE', current_user)
WHERE current_user <> 'mnema_admin'
  AND NOT coalesce(pg_has_role(to_regrole('mnema_owner')::oid, 'USAGE')
                   AND pg_has_role(to_regrole('mnema_owner')::oid, 'SET'), false)
ORDER BY step, statement

-- name: backup
-- Forced row-level security hides the rows from the owner: only a role that bypasses it can dump them.
SELECT 1 AS step, true AS needed, 'CREATE ROLE mnema_backup LOGIN BYPASSRLS' AS statement
WHERE to_regrole('mnema_backup') IS NULL
UNION ALL
SELECT 2, true, format('ALTER ROLE mnema_backup %s', p.cure)
FROM pg_roles r, LATERAL (VALUES (r.rolsuper, 'NOSUPERUSER'), (NOT r.rolbypassrls, 'BYPASSRLS'),
    (r.rolcreatedb, 'NOCREATEDB'), (r.rolcreaterole, 'NOCREATEROLE')) p(wrong, cure)
WHERE r.rolname = 'mnema_backup' AND p.wrong
UNION ALL
SELECT 3, true, 'ALTER ROLE mnema_backup SET default_transaction_read_only = on'
WHERE NOT EXISTS (
    SELECT FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole
    WHERE r.rolname = 'mnema_backup' AND d.setdatabase = 0 AND 'default_transaction_read_only=on' = ANY (d.setconfig))
UNION ALL
SELECT 4, true, 'GRANT pg_read_all_data TO mnema_backup'
WHERE NOT EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles o ON o.oid = m.member
    WHERE r.rolname = 'pg_read_all_data' AND o.rolname = 'mnema_backup')
ORDER BY step, statement

-- name: mover
-- The role of clusters, which replicates the directory and moves tenants. It needs BYPASSRLS, because replication refuses
-- a table whose row-level security binds its role, and mnema_app's functions, which the columns and indexes of a copied
-- row call.
SELECT 1 AS step, true AS needed, 'CREATE ROLE mnema_mover LOGIN REPLICATION BYPASSRLS' AS statement
WHERE to_regrole('mnema_mover') IS NULL
UNION ALL
SELECT 2, true, format('ALTER ROLE mnema_mover %s', p.cure)
FROM pg_roles r, LATERAL (VALUES (r.rolsuper, 'NOSUPERUSER'), (NOT r.rolbypassrls, 'BYPASSRLS'),
    (NOT r.rolreplication, 'REPLICATION'), (r.rolcreatedb, 'NOCREATEDB'), (r.rolcreaterole, 'NOCREATEROLE'))
    p(wrong, cure)
WHERE r.rolname = 'mnema_mover' AND p.wrong
UNION ALL
SELECT 3, true, format('GRANT %I TO mnema_mover', g.role)
FROM (VALUES ('pg_create_subscription'), ('pg_read_all_data'), ('pg_write_all_data'), ('mnema_app')) g(role)
WHERE NOT EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles o ON o.oid = m.member
    WHERE r.rolname = g.role AND o.rolname = 'mnema_mover')
UNION ALL
SELECT 4, true, 'GRANT mnema_mover TO mnema_admin WITH INHERIT FALSE, SET TRUE'
WHERE NOT EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid JOIN pg_roles o ON o.oid = m.member
    WHERE r.rolname = 'mnema_mover' AND o.rolname = 'mnema_admin' AND m.set_option)
ORDER BY step, statement

-- name: databases
SELECT 1 AS step, true AS needed, format('CREATE DATABASE %I OWNER mnema_owner', $1::text) AS statement
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text)
UNION ALL
-- mnema_app may not enter these. Where other programs log in, this would lock them out.
SELECT 2, false, format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', d.datname)
FROM pg_database d
WHERE d.datname IN ('postgres', 'template1') AND has_database_privilege('public', d.oid, 'CONNECT')
  AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
  AND NOT EXISTS (SELECT FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname NOT LIKE 'mnema\_%')
ORDER BY step, statement

-- name: inside
SELECT 1 AS step, true AS needed, 'CREATE EXTENSION vector WITH SCHEMA public' AS statement
WHERE NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')
UNION ALL
SELECT 2, true, 'ALTER EXTENSION vector ' || p.cure
FROM pg_extension e, LATERAL (VALUES (e.extnamespace <> 'public'::regnamespace, 'SET SCHEMA public'),
    (string_to_array(regexp_replace(e.extversion, '[^0-9.].*', ''), '.')::int[] < '{0,8}', 'UPDATE')) p(wrong, cure)
WHERE e.extname = 'vector' AND p.wrong
UNION ALL
-- Migrations grant rights on the schema. The owner of the database has all of them, unless it was made by an old version.
SELECT 3, true, 'GRANT ALL ON SCHEMA public TO mnema_owner' || CASE WHEN o.owned THEN '' ELSE ' WITH GRANT OPTION' END
FROM (SELECT n.nspacl, d.datdba = 'mnema_owner'::regrole AND n.nspowner = 'pg_database_owner'::regrole AS owned
      FROM pg_namespace n, pg_database d WHERE n.nspname = 'public' AND d.datname = current_database()) o
WHERE NOT EXISTS (
    SELECT FROM aclexplode(o.nspacl) a
    WHERE a.grantee = 'mnema_owner'::regrole AND a.privilege_type = 'CREATE' AND (a.is_grantable OR o.owned))
UNION ALL
SELECT 3, true, format('GRANT CREATE ON DATABASE %I TO mnema_owner', current_database())
WHERE NOT has_database_privilege('mnema_owner', current_database(), 'CREATE')
UNION ALL
-- The backup role may be that of another database in this cluster.
SELECT 4, r.rolname <> 'mnema_backup', format('GRANT CONNECT ON DATABASE %I TO %I', d.datname, r.rolname)
FROM pg_database d, pg_roles r
WHERE d.datname = current_database() AND r.rolname IN ('mnema_admin', 'mnema_app', 'mnema_backup')
  AND NOT EXISTS (SELECT FROM aclexplode(d.datacl) a WHERE a.grantee = r.oid AND a.privilege_type = 'CONNECT')
UNION ALL
-- A subscription belongs to the database.
SELECT 4, false, format('GRANT CONNECT, CREATE ON DATABASE %I TO mnema_mover', current_database())
WHERE to_regrole('mnema_mover') IS NOT NULL
  AND NOT has_database_privilege(to_regrole('mnema_mover')::oid, current_database(), 'CREATE')
UNION ALL
SELECT 5, false, 'REVOKE ALL ON SCHEMA public FROM PUBLIC'
WHERE has_schema_privilege('public', 'public', 'USAGE') OR has_schema_privilege('public', 'public', 'CREATE')
UNION ALL
SELECT 6, false, format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database())
WHERE has_database_privilege('public', current_database(), 'CONNECT')
   OR has_database_privilege('public', current_database(), 'TEMPORARY')
UNION ALL
-- Large objects have no tenant: every tenant could read what another one stored. Only a superuser may revoke this.
SELECT 7, false, format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', p.oid::regprocedure)
FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^lo(_|read$|write$)'
  AND has_function_privilege('public', p.oid, 'EXECUTE')
  AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
ORDER BY step, statement
