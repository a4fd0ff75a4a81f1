CREATE OR REPLACE FUNCTION public.stemmed_text(p_text text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN translate(regexp_replace((NORMALIZE(p_text, NFKC) COLLATE "C"), accents(), ''::text, 'g'::text), 'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĊČĎĐĒĖĘĚĞĠĢĦĪĮİĶĹĻĽŁŃŅŇŐŒŔŘŚŞŠŢŤŪŮŰŲŸŹŻŽȘȚΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫЂЃЄЅІЇЈЉЊЋЌЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯЁёԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖ’‘“”„«»‹›–—…¿¡·،؛؟۔।॥'::text, 'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćċčďđēėęěğġģħīįiķĺļľłńņňőœŕřśşšţťūůűųÿźżžșțάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋђѓєѕіїјљњћќџабвгдежзийклмнопрстуфхцчшщъыьэюяееաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ                     '::text);
COMMENT ON FUNCTION stemmed_text(text) IS 'Return a text as stemmers read it: in small letters with their accents, and with blanks for quotation marks and other
punctuation beyond ASCII. The lists do not depend on the locale of the database, which is often C.';
