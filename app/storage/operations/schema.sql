-- name: stored
SELECT revision, fingerprint, server FROM schema_fingerprint

-- name: missing
-- The objects that the migrations made and that are not there, by name. It asks for names only, so that a server may
-- often ask.
SELECT o.kind || ' ' || o.name AS object
FROM schema_fingerprint, jsonb_each(objects) k, jsonb_each_text(k.value) v, LATERAL (SELECT k.key, v.key) o(kind, name)
WHERE CASE o.kind WHEN 'function' THEN to_regprocedure(o.name)::oid ELSE to_regclass(o.name)::oid END IS NULL
ORDER BY 1

-- name: changed
-- The objects that are there, but not as the migrations made them. None if the texts are those of another major version
-- of PostgreSQL, which may write the same thing otherwise.
SELECT o.kind || ' ' || o.name AS object
FROM schema_fingerprint f, LATERAL ({objects}) o
WHERE f.server = current_setting('server_version_num')::int / 10000 AND f.objects->o.kind->>o.name <> o.digest
ORDER BY 1

-- name: objects
-- Every table, view and function of ours with a digest of all that defines it. Those of embedding spaces come and go
-- with the spaces, and partitions with the weeks.
WITH of_extensions AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
relations AS (
    SELECT c.* FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM of_extensions e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid)
      AND NOT EXISTS (SELECT FROM embedding_spaces s WHERE c.relname IN ('vec_' || s.name, 'past_' || s.name))),
texts AS (
    SELECT r.oid, 1 AS part, a.attnum::text COLLATE "C" AS place, concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
        a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, r.oid)) AS line
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
    UNION ALL
    SELECT r.oid, 2, k.conname, pg_get_constraintdef(k.oid) FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid
    WHERE k.contype IN ('p', 'u', 'x', 'f', 'c')
    UNION ALL
    SELECT r.oid, 3, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
    FROM relations r JOIN pg_index i ON i.indrelid = r.oid
    UNION ALL
    SELECT r.oid, 4, t.tgname, concat_ws(' ', pg_get_triggerdef(t.oid),
        CASE WHEN t.tgname NOT IN ('at_home', 'directory_here') THEN t.tgenabled END)  -- enabled where there are clusters
    FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal
    UNION ALL
    SELECT r.oid, 5, p.polname, concat_ws(' ', p.polcmd, p.polpermissive, pg_get_expr(p.polqual, r.oid),
        pg_get_expr(p.polwithcheck, r.oid), (SELECT string_agg(CASE o WHEN 0 THEN 'PUBLIC' ELSE o::regrole::text END, ','
                                                               ORDER BY o::regrole::text) FROM unnest(p.polroles) o))
    FROM relations r JOIN pg_policy p ON p.polrelid = r.oid
    UNION ALL
    SELECT r.oid, 6, '', concat_ws(' ', r.relowner::regrole, r.relrowsecurity, r.relforcerowsecurity,
                                   CASE WHEN r.relkind = 'v' THEN pg_get_viewdef(r.oid) END) FROM relations r
    UNION ALL
    SELECT r.oid, 7, '', string_agg(x.grantee::regrole || ' ' || x.privilege_type || ' ' || x.attname, ','
                                    ORDER BY x.grantee::regrole::text, x.privilege_type, x.attname)
    FROM relations r, LATERAL (
        SELECT g.grantee, g.privilege_type, '' AS attname FROM aclexplode(r.relacl) g WHERE g.grantee <> r.relowner
        UNION ALL
        SELECT g.grantee, g.privilege_type, a.attname FROM pg_attribute a, aclexplode(a.attacl) g
        WHERE a.attrelid = r.oid AND NOT a.attisdropped AND g.grantee <> r.relowner) x
    GROUP BY r.oid)
SELECT 'relation' AS kind, t.oid::regclass::text AS name,
       md5(string_agg(t.line, E'\n' ORDER BY t.part, length(t.place), t.place COLLATE "C")) AS digest
FROM texts t GROUP BY t.oid
UNION ALL
SELECT 'function', p.oid::regprocedure::text, md5(concat_ws(' ', pg_get_functiondef(p.oid), p.proowner::regrole, (
    SELECT string_agg(g.grantee::regrole || ' ' || g.privilege_type, ',' ORDER BY g.grantee::regrole::text)
    FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g WHERE g.grantee <> p.proowner)))
FROM pg_proc p
WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
  AND NOT EXISTS (SELECT FROM of_extensions e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid)
  AND NOT EXISTS (SELECT FROM embedding_spaces s WHERE right(p.proname, length(s.name) + 1) = '_' || s.name)
