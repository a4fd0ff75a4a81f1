CREATE OR REPLACE FUNCTION public.former_memory(m memories, p_image jsonb)
 RETURNS memories
 LANGUAGE sql
 STABLE
RETURN jsonb_populate_record(m, ('{"language": null, "valid_to": null, "expires_at": null, "valid_from": null}'::jsonb || p_image));
COMMENT ON FUNCTION former_memory(memories,jsonb) IS 'Return a memory with the fields of an image that history has of it. An image of before a column was added has none of
that column. The columns that no image has are those of today: tsv, text_hash, stored_at, fact_topic.';
