CREATE OR REPLACE FUNCTION public.turn_filters(p_filters jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (SELECT jsonb_object_agg(f.key, f.value) AS jsonb_object_agg FROM jsonb_each(turn_filters.p_filters) f(key, value) WHERE (f.key = ANY (ARRAY['before_seq'::text, 'before_thread'::text, 'exclude_ids'::text, 'unexpired_at'::text])));
COMMENT ON FUNCTION turn_filters(jsonb) IS 'Return those of the filters that hold for the turn of a chunk too: the others are about the chunk.';
