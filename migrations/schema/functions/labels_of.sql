CREATE OR REPLACE FUNCTION public.labels_of(p_tenant uuid, p_tags text[], p_metadata jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN jsonb_build_object((p_tenant)::text, jsonb_build_object('tags', p_tags, 'metadata', p_metadata, 'keys', jsonb_path_query_array(p_metadata, '$.keyvalue()."key"'::jsonpath, '{}'::jsonb, true)));
COMMENT ON FUNCTION labels_of(uuid,text[],jsonb) IS 'Return the tags and the metadata of a memory under its tenant: in the index each path begins with the tenant.';
