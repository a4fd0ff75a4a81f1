-- Only OpenAI's endpoints stay. Row-level security binds the owner too, so each tenant's rows are deleted apart.
DO $do$
DECLARE
    v_tenant record;
BEGIN
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        DELETE FROM chat_upstreams WHERE tenant_id = v_tenant.id AND dialect <> 'openai';
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $do$;

ALTER TABLE chat_upstreams
    DROP CONSTRAINT chat_upstreams_pkey,
    DROP COLUMN dialect,
    ADD PRIMARY KEY (tenant_id);
