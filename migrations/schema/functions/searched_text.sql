CREATE OR REPLACE FUNCTION public.searched_text(p_text text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    -- Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean
    c_unspaced CONSTANT text := '[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3041-\u3096\u309d-\u309f'
        || '\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af]';
BEGIN
    IF p_text COLLATE "C" !~ '[^\x01-\x7f]' THEN RETURN p_text; END IF;
    -- accents of Latin, Greek and Cyrillic letters, points of Hebrew and Arabic ones, and the dot of Devanagari
    p_text := normalize(regexp_replace(normalize(p_text, NFKD) COLLATE "C",
        '[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670\u093c]', '', 'g'), NFC);
    p_text := translate(p_text,
        'АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯІЄҐЂЈЉЊЋЏЅѢΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩςØŁÆŒĐÐÞøłđ',
        'абвгдежзиклмнопрстуфхцчшщъыьэюяієґђјљњћџѕѣαβγδεζηθικλμνξοπρστυφχψωσolæœdðþold');
    p_text := translate(p_text, 'ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖ', 'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ');
    p_text := regexp_replace(p_text COLLATE "C",
        '[\u00a1-\u00bf\u055a-\u055f\u0589\u05be\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965\u2000-\u206f'
        || '\u3000-\u303f\u30fb\ufe30-\ufe4f]', ' ', 'g');
    IF p_text COLLATE "C" !~ c_unspaced THEN RETURN p_text; END IF;
    RETURN (
        SELECT string_agg(CASE
            WHEN NOT c.unspaced THEN c.char
            WHEN c.follows AND c.leads THEN c.char || c.next || ' '
            WHEN c.leads THEN ' ' || c.char || c.next || ' '
            WHEN c.follows THEN ''
            ELSE ' ' || c.char || ' ' END, '' ORDER BY c.place)
        FROM (
            SELECT char, place, unspaced, lead(char) OVER places AS next,
                   coalesce(lead(unspaced) OVER places, false) AS leads,
                   coalesce(lag(unspaced) OVER places, false) AS follows
            FROM (
                SELECT char, place, char COLLATE "C" ~ c_unspaced AS unspaced
                FROM regexp_split_to_table(p_text, '') WITH ORDINALITY AS s(char, place)) split
            WINDOW places AS (ORDER BY place)) c);
END $function$;
COMMENT ON FUNCTION searched_text(text) IS 'Return a text as it is searched by words, of stored texts and of queries alike: without accents and points, in one
width, in small letters, with blanks for punctuation, and with a script that puts no blanks between its words in
pairs of characters: 花生过敏 becomes `花生 生过 过敏`. A text in ASCII stays as it is. The lists do not depend on the
locale of the database, which is often C. Takes linear time.';
