"""Checks of the isolation in pg_catalog. Each check returns the offences; an empty list is a pass."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

GLOBAL = ["alembic_version", "cluster", "embedding_spaces", "epochs", "installation", "schema_fingerprint"]
"""Tables of the installation, not of a tenant."""

NOT_LED_BY_TENANT = ["tenants_pkey", "tenants_name_key", "api_keys_hash"]
"""Keys of tenant tables that do not begin with tenant_id: a tenant's own id is its tenant, its name is unique, and an
API key is looked up before its tenant is known."""

DEFINERS = {
    "add_partitions()": "mnema_partitions",
    "authenticate(bytea)": "mnema_auth",
    "changed_configs(bigint)": "mnema_auth",
    "claim_jobs(integer,interval)": "mnema_jobs",
    "due_webhooks(integer)": "mnema_jobs",
    "drop_partitions(integer,integer,timestamp with time zone,boolean)": "mnema_partitions",
    "items_mentioning_user(text)": "mnema_search",
    "jobs_behind()": "mnema_jobs",
    "labelled_memories(bigint,text[],jsonb,integer)": "mnema_search",
    "numbered_memories(bigint,text[],jsonb,integer)": "mnema_search",
    "longest_kept(integer,integer)": "mnema_partitions",
    "list_indexed(text,bigint,tsquery,text[],jsonb,jsonb,integer,integer)": "mnema_search",
    "list_worded(bigint,text,text[],jsonb,jsonb,integer)": "mnema_search",
    "paused_jobs()": "mnema_jobs",
    "pending_revocations()": "mnema_auth",
    "sampled_languages(integer)": "mnema_search",
    "list_homeless(integer)": "mnema_auth",
    "list_moves(boolean)": "mnema_auth",
    "owed_erasures()": "mnema_auth",
    "list_placements(timestamp with time zone)": "mnema_auth",
    "newest_placement()": "mnema_auth",
    "page_placements(timestamp with time zone,uuid,integer)": "mnema_auth",
    "list_tenants()": "mnema_auth",
    "search_chunks(bigint,text,text[],jsonb,integer)": "mnema_search",
    "search_lexical(bigint,text,text[],jsonb,integer)": "mnema_search",
    "tagged_artifacts(text,text,timestamp with time zone,integer)": "mnema_search",
}
"""The only functions that see across tenants, and whose they are."""

PARTITIONED = ["events", "receipts", "receipt_items"]
"""The tables that mnema_partitions owns, because only an owner can make and drop partitions."""

DIRECTORY = ["api_keys", "moves", "placements", "tenants"]
"""Tables that one cluster writes for all."""

NOT_AT_HOME = ["residences", "revocations"]
"""Tables of a tenant that each cluster writes for itself, wherever the tenant is at home."""

Check: TypeAlias = Callable[[asyncpg.Connection], Awaitable[list[str]]]

_TABLES = """
SELECT c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND c.relname <> ALL ($1::text[]) ORDER BY c.relname
"""
_POLICIES = """
SELECT p.polname, p.polpermissive, p.polcmd::text AS cmd, pg_get_expr(p.polqual, p.polrelid) AS using_,
       pg_get_expr(p.polwithcheck, p.polrelid) AS check_,
       ARRAY(SELECT CASE r WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(r)::text END FROM unnest(p.polroles) r) AS roles
FROM pg_policy p WHERE p.polrelid = $1 ORDER BY p.polname
"""


async def tenant_tables(connection: asyncpg.Connection) -> list[str]:
    """Every table but partitions and the global ones."""
    return [row["relname"] for row in await connection.fetch(_TABLES, GLOBAL)]


async def unprotected_tables(connection: asyncpg.Connection) -> list[str]:
    """Every tenant table has forced row-level security, one policy for all, and none that opens more to anybody who
    could use it to write or to log in."""
    found = []
    for table in await connection.fetch(_TABLES, GLOBAL):
        name = table["relname"]
        found += [f"{name}: not enabled"] * (not table["relrowsecurity"])
        found += [f"{name}: not forced"] * (not table["relforcerowsecurity"])
        key = "id" if name == "tenants" else "tenant_id"
        rule = f"({key} = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid)"
        protected = False
        for policy in await connection.fetch(_POLICIES, table["oid"]):
            if policy["roles"] == ["PUBLIC"] and policy["cmd"] == "*" and policy["using_"] == policy["check_"] == rule:
                protected = True
            elif not policy["polpermissive"]:
                continue  # it only takes away
            elif policy["cmd"] != "r" or not set(policy["roles"]) <= set(DEFINERS.values()):
                found.append(f"{name}: policy {policy['polname']} opens it to {', '.join(policy['roles'])}")
        found += [f"{name}: no policy on the tenant"] * (not protected)
    return found


async def unguarded_tables(connection: asyncpg.Connection) -> list[str]:
    """Every tenant table refuses the writes of a tenant that is at home in another cluster, once there are several."""
    return await _column(
        connection,
        """SELECT c.relname || ': no trigger ' || g.guard FROM pg_class c, LATERAL (
            SELECT CASE WHEN c.relname = ANY ($2::text[]) THEN 'directory_here' ELSE 'at_home' END AS guard) g
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relname <> ALL ($1::text[] || $3::text[]) AND NOT EXISTS (
            SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
            WHERE t.tgrelid = c.oid AND t.tgname = g.guard AND t.tgenabled = 'D' AND t.tgtype = 2 + 4 + 8 + 16
              AND p.proname = CASE g.guard WHEN 'at_home' THEN 'refuse_away' ELSE 'refuse_copy' END)
        ORDER BY 1""",
        GLOBAL,
        DIRECTORY,
        NOT_AT_HOME,
    )


async def _column(connection: asyncpg.Connection, query: str, *args: object) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *args)]


async def granted_partitions(connection: asyncpg.Connection) -> list[str]:
    """A partition bypasses its parent's policy, so nobody but the owner may touch one."""
    return await _column(
        connection,
        """SELECT c.relname || ': ' || pg_get_userbyid(a.grantee) || ' ' || a.privilege_type
        FROM pg_class c, LATERAL (
            SELECT * FROM aclexplode(c.relacl) UNION ALL
            SELECT x.* FROM pg_attribute t, aclexplode(t.attacl) x WHERE t.attrelid = c.oid) a
        WHERE c.relispartition AND c.relkind IN ('r', 'p') AND a.grantee <> c.relowner ORDER BY 1""",
    )


async def reachable_partitions(connection: asyncpg.Connection, role: str = "mnema_app") -> list[str]:
    """The server's role may not even name the partitions that come and go: their schema is closed to all."""
    return await _column(
        connection,
        """SELECT r.rolname || ' may use the schema ' || n.nspname FROM pg_namespace n, pg_roles r
        WHERE r.rolname IN ($1, 'mnema_auth', 'mnema_jobs', 'mnema_search')
          AND (has_schema_privilege(r.oid, n.oid, 'USAGE') OR has_schema_privilege(r.oid, n.oid, 'CREATE'))
          AND n.nspname = 'partitions'
        UNION ALL
        SELECT c.oid::regclass || ': of ' || pg_get_userbyid(c.relowner)
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relname = ANY ($2::text[])
          AND (c.relnamespace <> 'partitions'::regnamespace OR c.relowner <> p.relowner)
        ORDER BY 1""",
        role,
        PARTITIONED,
    )


async def plans_for_average_tenants(connection: asyncpg.Connection, role: str = "mnema_app") -> list[str]:
    """Plans serve tenants of all sizes, so in each table and partition the planner expects the largest one."""
    return await _column(
        connection,
        """SELECT a.attrelid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'tenant_id' AND c.relkind IN ('r', 'p')
          AND c.relnamespace IN ('public'::regnamespace, 'partitions'::regnamespace)
          AND NOT coalesce(a.attoptions @> '{n_distinct=1,n_distinct_inherited=1}', false)
        UNION ALL
        SELECT 'the role reads tables sequentially' FROM pg_roles
        WHERE rolname = $1 AND NOT coalesce('enable_seqscan=off' = ANY (rolconfig), false)
        ORDER BY 1""",
        role,
    )


async def keys_not_led_by_tenant(connection: asyncpg.Connection) -> list[str]:
    """Primary, unique and foreign keys and exclusions begin with the tenant, foreign keys on both sides."""
    return await _column(
        connection,
        """SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE (i.indisunique OR i.indisexclusion) AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
          AND c.relname <> ALL ($1::text[]) AND i.indexrelid::regclass::text <> ALL ($2::text[])
          AND a.attname IS DISTINCT FROM 'tenant_id'
        UNION ALL
        SELECT f.conname FROM pg_constraint f
        JOIN pg_class c ON c.oid = f.conrelid AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition
        JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
        JOIN pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = f.confkey[1]
        WHERE f.contype = 'f' AND c.relname <> ALL ($1::text[]) AND NOT (a.attname = 'tenant_id'
            AND (b.attname = 'tenant_id' OR (f.confrelid = 'tenants'::regclass AND b.attname = 'id')))
        ORDER BY 1""",
        GLOBAL,
        NOT_LED_BY_TENANT,
    )


async def app_powers(connection: asyncpg.Connection, role: str = "mnema_app") -> list[str]:
    """The server's role owns nothing, belongs to nobody, bypasses nothing, cannot make objects, large ones neither, and
    has no other database."""
    return await _column(
        connection,
        """WITH app AS (SELECT * FROM pg_roles WHERE rolname = $1)
        SELECT 'is ' || power FROM app, LATERAL (VALUES ('superuser', rolsuper), ('bypassrls', rolbypassrls),
            ('createdb', rolcreatedb), ('createrole', rolcreaterole), ('replication', rolreplication)) p(power, has)
            WHERE has
        UNION ALL
        SELECT 'owns ' || coalesce(pg_describe_object(d.classid, d.objid, d.objsubid), d.objid::text)
            FROM pg_shdepend d JOIN app ON d.refobjid = app.oid
            WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'o'
              AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
        UNION ALL
        SELECT 'is a member of ' || pg_get_userbyid(m.roleid) FROM pg_auth_members m JOIN app ON m.member = app.oid
        UNION ALL
        SELECT 'may create in schema ' || n.nspname FROM pg_namespace n
            WHERE has_schema_privilege($1, n.oid, 'CREATE')
        UNION ALL
        SELECT 'has the database right ' || r FROM unnest(ARRAY['CREATE', 'TEMPORARY']) r
            WHERE has_database_privilege($1, current_database(), r)
        UNION ALL
        SELECT 'may ' || r || ' ' || c.relname FROM pg_class c, unnest(ARRAY['TRUNCATE', 'TRIGGER', 'REFERENCES']) r
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
              AND has_table_privilege($1, c.oid, r)
        UNION ALL
        SELECT 'may connect to ' || datname FROM pg_database
            WHERE datname IN ('postgres', 'template1') AND has_database_privilege($1, oid, 'CONNECT')
        UNION ALL
        SELECT 'may call ' || oid::regprocedure FROM pg_proc
            WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)'
              AND has_function_privilege($1, oid, 'EXECUTE')
        ORDER BY 1""",
        role,
    )


_OURS = """
FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner WHERE p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
"""


async def public_functions(connection: asyncpg.Connection) -> list[str]:
    """No function of ours is everybody's to call; one without an ACL is."""
    return await _column(
        connection,
        f"""SELECT p.oid::regprocedure::text {_OURS} AND EXISTS (
            SELECT 1 FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
        ORDER BY 1""",
    )


async def unsafe_definers(connection: asyncpg.Connection) -> list[str]:
    """SECURITY DEFINER: exactly the known ones, each of a NOLOGIN role that is not the owner, with a fixed search path
    that puts temporary objects last, and executable by mnema_app alone."""
    rows = await connection.fetch(
        f"""SELECT p.oid::regprocedure::text AS name, o.rolname AS owner, p.proconfig,
            o.rolcanlogin OR o.rolsuper OR o.rolbypassrls AS free,
            ARRAY(SELECT a.grantee::regrole::text FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner ORDER BY 1)
            AS callers
        {_OURS} AND p.prosecdef ORDER BY 1"""
    )
    names = {row["name"] for row in rows}
    found = [f"{name}: missing" for name in sorted(DEFINERS.keys() - names)]
    for row in rows:
        wrong = {
            "unknown": row["name"] not in DEFINERS,
            f"owned by {row['owner']}": row["owner"] != DEFINERS.get(row["name"]),
            "owner is free to do more": row["free"],
            "search path": "search_path=pg_catalog, public, pg_temp" not in (row["proconfig"] or []),
            f"callable by {row['callers']}": row["callers"] != ["mnema_app"],
        }
        found += [f"{row['name']}: {what}" for what, is_wrong in wrong.items() if is_wrong]
    return found


async def definer_powers(connection: asyncpg.Connection) -> list[str]:
    """The definers' roles may look at what they search, and nothing else. mnema_partitions owns what it partitions."""
    seen = (
        *("auth api_keys", "auth moves", "auth placements", "auth revocations", "auth tenant_configs", "auth tenants"),
        *("auth cluster", "auth residences"),
        *("jobs job_pauses", "jobs jobs", "jobs webhooks"),
        *("search memories", "search store_items", "search conv_messages", "partitions tenant_configs"),
    )
    allowed = [f"mnema_{role_and_table} SELECT" for role_and_table in seen]
    return await _column(
        connection,
        """SELECT grantee::regrole || ' ' || c.relname || ' ' || privilege_type AS right_
        FROM pg_class c, LATERAL (
            SELECT * FROM aclexplode(c.relacl) UNION ALL
            SELECT x.* FROM pg_attribute t, aclexplode(t.attacl) x WHERE t.attrelid = c.oid) a
        WHERE grantee::regrole::text = ANY ($1::text[])
          AND NOT (c.relowner = 'mnema_partitions'::regrole AND grantee = c.relowner)
          AND grantee::regrole || ' ' || c.relname || ' ' || privilege_type <> ALL ($2::text[])
        UNION ALL
        SELECT r.rolname || ' may create in public' FROM pg_roles r
        WHERE r.rolname = ANY ($1::text[]) AND has_schema_privilege(r.oid, 'public', 'CREATE')
        UNION ALL
        SELECT pg_get_userbyid(c.relowner) || ' owns ' || c.relname FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND pg_get_userbyid(c.relowner) = ANY ($1::text[])
          AND c.relkind IN ('r', 'p') AND c.relname <> ALL ($3::text[])
        UNION ALL
        SELECT r.rolname || ' is a member of ' || pg_get_userbyid(m.roleid)
        FROM pg_roles r JOIN pg_auth_members m ON m.member = r.oid WHERE r.rolname = ANY ($1::text[]) ORDER BY 1""",
        sorted(set(DEFINERS.values())),
        allowed,
        PARTITIONED,
    )


async def views(connection: asyncpg.Connection) -> list[str]:
    """A view reads as its owner, unless it is told to read with the rights of its caller: all are told so."""
    return await _column(
        connection,
        """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm', 'f')
          AND NOT (relkind = 'v' AND 'security_invoker=true' = ANY (coalesce(reloptions, '{}')))
        ORDER BY 1""",
    )


async def transaction_ids(connection: asyncpg.Connection) -> list[str]:
    """No column holds a transaction id, which means nothing in another cluster: a stamp does."""
    return await _column(
        connection,
        """SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0
          AND NOT a.attisdropped AND a.atttypid IN ('xid'::regtype, 'xid8'::regtype, 'pg_snapshot'::regtype)
        ORDER BY 1""",
    )


CHECKS: list[Check] = [
    unprotected_tables,
    unguarded_tables,
    granted_partitions,
    reachable_partitions,
    plans_for_average_tenants,
    keys_not_led_by_tenant,
    app_powers,
    public_functions,
    unsafe_definers,
    definer_powers,
    views,
    transaction_ids,
]
