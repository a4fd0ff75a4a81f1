CREATE OR REPLACE FUNCTION public.is_importing()
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (COALESCE(current_setting('app.importing'::text, true), ''::text) = 'on'::text);
COMMENT ON FUNCTION is_importing() IS 'Return whether this transaction imports a user''s export. A setting of the transaction says so.';
