CREATE OR REPLACE FUNCTION public.search_places(p_name text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN (SELECT (CASE WHEN (embedding_spaces.dimension > widest_exact()) THEN jsonb_build_object('dimension', embedding_spaces.dimension, 'set_signs', format('v_signs := binary_quantize(p_vector)::bit(%s);'::text, embedding_spaces.dimension), 'distance', format('v.signs <~> binary_quantize(p_vector)::bit(%s)'::text, embedding_spaces.dimension), 'more', 8, 'ef_search', 200) ELSE jsonb_build_object('dimension', embedding_spaces.dimension, 'set_signs', '', 'distance', 'v.embedding <=> p_vector', 'more', 1, 'ef_search', 120) END || jsonb_build_object('space', embedding_spaces.name)) FROM embedding_spaces WHERE (embedding_spaces.name = search_places.p_name));
COMMENT ON FUNCTION search_places(text) IS 'Return the places that a space''s functions of search share. Wide vectors are compared by their signs first, which an
index holds; then the vectors of the best are read.';
