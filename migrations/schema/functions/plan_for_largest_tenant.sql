CREATE OR REPLACE FUNCTION public.plan_for_largest_tenant(p_table regclass)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    EXECUTE format('ALTER TABLE %s ALTER COLUMN tenant_id SET (n_distinct = 1, n_distinct_inherited = 1)', p_table);
END $function$;
COMMENT ON FUNCTION plan_for_largest_tenant(regclass) IS 'Have statements planned for the largest tenant of a table. A prepared plan serves all tenants. From the average
tenant, of a few rows, PostgreSQL concludes that one lookup may as well read all rows of the tenant, which is slow
where they are many. One distinct tenant_id stands for: a tenant has as many rows as the most frequent one. Since
every index begins with the tenant, and mnema_app reads no table sequentially, such a plan costs a small tenant
little. Nor does mnema_app keep a sequential scan that was planned while a table was empty.';
