CREATE OR REPLACE FUNCTION public.content_key(r jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN ((md5((jsonb_build_array((r -> 'category'::text), (r -> 'text'::text), (r -> 'steps_text'::text)))::text) || ':'::text) || (r ->> 'importance'::text));
COMMENT ON FUNCTION content_key(jsonb) IS 'Return what a bullet of the delta shows of a memory (of memory_json) as one key: of its text, and of its importance.';
