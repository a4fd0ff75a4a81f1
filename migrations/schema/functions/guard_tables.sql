CREATE OR REPLACE FUNCTION public.guard_tables()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_state text := CASE WHEN EXISTS (SELECT FROM cluster) THEN 'ENABLE' ELSE 'DISABLE' END;
    v_table record;
BEGIN
    FOR v_table IN
        SELECT c.oid::regclass AS name, g.trigger_name, g.function_name
        FROM pg_class c, LATERAL (
            SELECT 'directory_here' AS trigger_name, 'refuse_copy' AS function_name
            WHERE c.relname IN ('tenants', 'api_keys', 'placements', 'moves')
            UNION ALL
            SELECT 'at_home', 'refuse_away' WHERE c.relname NOT IN ('tenants', 'api_keys', 'placements', 'moves',
                                                                    'residences', 'revocations')
              AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')) g
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    LOOP
        IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = v_table.name AND t.tgname = v_table.trigger_name) THEN
            EXECUTE format('CREATE TRIGGER %I BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT
                            EXECUTE FUNCTION %I()', v_table.trigger_name, v_table.name, v_table.function_name);
        END IF;
        EXECUTE format('ALTER TABLE ONLY %s %s TRIGGER %I', v_table.name, v_state, v_table.trigger_name);
    END LOOP;
END $function$;
COMMENT ON FUNCTION guard_tables() IS 'Give each table the trigger that it needs, enabled if the database belongs to several clusters. Idempotent. They fire
once a statement, and not for what a replication copies.';
