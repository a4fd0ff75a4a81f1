CREATE OR REPLACE FUNCTION public.folded_stems(p_stems text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN ((p_stems COLLATE "C") ~ '[^\x01-\x7f]'::text) THEN translate(NORMALIZE(regexp_replace((NORMALIZE(p_stems, NFKD) COLLATE "C"), accents(), ''::text, 'g'::text), NFC), 'ςøłđıیىک'::text, 'σoldiييك'::text) ELSE p_stems END;
COMMENT ON FUNCTION folded_stems(text) IS 'Return stems, of a tsvector or a tsquery as text, as searched_text spells words. The stemmer has seen the accents: it
knows `canción`, not `cancion`.';
