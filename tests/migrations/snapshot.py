"""The schema as text: what autogenerate does not compare (functions, policies, grants, triggers) and what it does."""

from pathlib import Path

import asyncpg

FILE = Path(__file__).with_name("catalog.txt")

_TABLES = "c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
_OURS = """p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')"""
_WHO = "CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END"
_RIGHTS = "string_agg(a.privilege_type, ', ' ORDER BY a.privilege_type)"

SECTIONS = {
    "columns": f"""
        SELECT concat_ws(' ', c.relname || '.' || t.attname, format_type(t.atttypid, t.atttypmod),
            CASE WHEN t.attnotnull THEN 'NOT NULL' END, CASE t.attidentity WHEN 'a' THEN 'IDENTITY' END,
            CASE t.attgenerated WHEN 's' THEN 'GENERATED ' ELSE 'DEFAULT ' END || pg_get_expr(d.adbin, c.oid))
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid AND t.attnum > 0 AND NOT t.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = t.attnum WHERE {_TABLES}
        ORDER BY c.relname, t.attnum""",
    "storage": f"""
        SELECT concat_ws(' ', c.relname, 'owner', c.relowner::regrole::text, array_to_string(c.reloptions, ' '),
            CASE WHEN c.relrowsecurity THEN 'rls' END, CASE WHEN c.relforcerowsecurity THEN 'forced' END,
            CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) || ' x '
                || (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = c.oid) END)
        FROM pg_class c WHERE {_TABLES}""",
    "constraints": f"""
        SELECT c.relname || ' ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
        FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype IN ('c', 'f', 'p', 'u', 'x')
        WHERE {_TABLES}""",
    "indexes": f"""
        SELECT pg_get_indexdef(i.indexrelid) FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid
        WHERE {_TABLES}""",
    "triggers": f"""
        SELECT pg_get_triggerdef(t.oid) || ' enabled ' || t.tgenabled::text
        FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal WHERE {_TABLES}""",
    "policies": f"""
        SELECT format('%s %s for %s to %s using %s check %s', c.relname, p.polname, p.polcmd,
            ARRAY(SELECT CASE r WHEN 0 THEN 'PUBLIC' ELSE r::regrole::text END FROM unnest(p.polroles) r ORDER BY 1),
            pg_get_expr(p.polqual, c.oid), coalesce(pg_get_expr(p.polwithcheck, c.oid), '-'))
        FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid WHERE {_TABLES}""",
    "functions": f"""
        SELECT concat_ws(' ', p.oid::regprocedure::text, 'returns', pg_get_function_result(p.oid),
            'owner', p.proowner::regrole::text, 'language', l.lanname,
            CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
            'parallel', p.proparallel, CASE WHEN p.prosecdef THEN 'DEFINER' ELSE 'invoker' END,
            array_to_string(p.proconfig, ' '), 'md5', md5(coalesce(pg_get_function_sqlbody(p.oid), p.prosrc)))
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE {_OURS}""",
    "grants on tables": f"""
        SELECT {_WHO} || ' ' || c.relname || ' ' || {_RIGHTS}
        FROM pg_class c, aclexplode(c.relacl) a WHERE {_TABLES} AND a.grantee <> c.relowner
        GROUP BY a.grantee, c.relname""",
    "grants on columns": f"""
        SELECT {_WHO} || ' ' || c.relname || '.' || t.attname || ' ' || {_RIGHTS}
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
        WHERE {_TABLES} AND a.grantee <> c.relowner GROUP BY a.grantee, c.relname, t.attname""",
    "grants on functions": f"""
        SELECT p.oid::regprocedure::text || ' ' || coalesce(string_agg({_WHO}, ', ' ORDER BY {_WHO}), '-')
        FROM pg_proc p LEFT JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            ON a.grantee <> p.proowner WHERE {_OURS} GROUP BY p.oid""",
    "grants on the schema": f"""
        SELECT {_WHO} || ' ' || {_RIGHTS} FROM pg_namespace n, aclexplode(n.nspacl) a
        WHERE n.nspname = 'public' AND a.grantee <> n.nspowner GROUP BY a.grantee""",
    "grants to come": """
        SELECT d.defaclrole::regrole::text || ' ' || d.defaclobjtype::text || ' ' || d.defaclacl::text
        FROM pg_default_acl d""",
    "embedding spaces": """
        SELECT concat_ws(' ', name, model, dimension, CASE WHEN active THEN 'active' END)
        FROM embedding_spaces""",
}


async def catalogue(url: str) -> str:
    """Everything above of one database, in an order that never changes."""
    connection = await asyncpg.connect(url)
    try:
        parts = []
        for title, query in SECTIONS.items():
            lines = [" ".join(row[0].split()) for row in await connection.fetch(query)]
            parts.append("\n".join([f"# {title}", *(lines if title == "columns" else sorted(lines))]))
        return "\n\n".join(parts) + "\n"
    finally:
        await connection.close()
