CREATE OR REPLACE FUNCTION public.join_cluster(p_name text, p_number smallint, p_keeps_directory boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_cluster cluster := (SELECT c FROM cluster c);
    v_least bigint := p_number::bigint << 40;
    v_tenant uuid;
BEGIN
    IF v_cluster IS NULL AND NOT p_keeps_directory AND EXISTS (SELECT FROM list_tenants()) THEN
        RAISE EXCEPTION 'a database with tenants can only join as the first cluster';
    ELSIF v_cluster IS NULL THEN
        INSERT INTO cluster (name, number, keeps_directory) VALUES (p_name, p_number, p_keeps_directory);
    ELSIF (v_cluster.name, v_cluster.number, v_cluster.keeps_directory) <> (p_name, p_number, p_keeps_directory) THEN
        RAISE EXCEPTION 'this database is the cluster % with the number %', v_cluster.name, v_cluster.number;
    END IF;
    IF (SELECT last_value FROM users_user_pk_seq) < v_least THEN
        PERFORM setval('users_user_pk_seq', v_least);
    END IF;
    PERFORM guard_tables();
    FOR v_tenant IN SELECT t.id FROM list_tenants() t WHERE v_cluster IS NULL LOOP
        PERFORM set_config('app.tenant_id', v_tenant::text, true);
        INSERT INTO placements (tenant_id, cluster) VALUES (v_tenant, p_name);
        INSERT INTO residences (tenant_id, state) VALUES (v_tenant, 'home');
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $function$;
COMMENT ON FUNCTION join_cluster(text,smallint,boolean) IS 'Make this database a cluster of this name. Idempotent. The tenants that it has are at home here from then on, so the
first one with tenants must keep the directory. The keys of users come from a range of the cluster''s own.';
