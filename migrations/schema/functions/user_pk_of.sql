CREATE OR REPLACE FUNCTION public.user_pk_of(p_tenant uuid, p_user text)
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (SELECT users.user_pk FROM users WHERE ((users.tenant_id = user_pk_of.p_tenant) AND (users.user_id = user_pk_of.p_user)));
COMMENT ON FUNCTION user_pk_of(uuid,text) IS 'Return the internal key of a user, NULL if the tenant has no such user.';
