CREATE OR REPLACE FUNCTION public.plan_for_largest_tenant(p_table regclass)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('ALTER TABLE %s ALTER COLUMN tenant_id SET (n_distinct = 1, n_distinct_inherited = 1)', p_table);
END $function$;
