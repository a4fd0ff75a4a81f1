CREATE OR REPLACE FUNCTION public.has_own_history(p_tenant uuid, p_patch uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM history h WHERE ((h.tenant_id = has_own_history.p_tenant) AND (h.memory_id = (has_own_history.p_patch)::text) AND (NOT (h.meta ? 'imported'::text)))));
COMMENT ON FUNCTION has_own_history(uuid,uuid) IS 'Return whether history has a record of a proposal that this installation made. An imported proposal has one if its
value was withdrawn here.';
