CREATE OR REPLACE FUNCTION public.current_tenant()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid;
COMMENT ON FUNCTION current_tenant() IS 'Tenant of this transaction. After a commit the setting is '''', not NULL.';
