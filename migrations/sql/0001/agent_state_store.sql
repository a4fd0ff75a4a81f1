-- Agent state, part 2: values that agents store by namespace and key, as in LangGraph's store.

CREATE TABLE store_items (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    -- The labels of the namespace, each followed by U+0001, compared by bytes: a prefix is a range of the index. text[]
    -- would not do: its comparisons are not leakproof, so no index would be used under row-level security.
    path        text COLLATE "C" NOT NULL CHECK (path <> ''),
    key         text COLLATE "C" NOT NULL,
    value       jsonb NOT NULL,
    size        integer NOT NULL,                   -- of the value, in bytes
    indexed     text[],                             -- the paths in the value whose texts have vectors
    user_id     text,                               -- the item is exported and erased with this user
    ttl         interval,                           -- how long the item is kept after the last read or write
    expires_at  timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, path, key),
    CHECK ((ttl IS NULL) = (expires_at IS NULL))
);
CREATE INDEX store_items_of_user ON store_items (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX store_items_expiring ON store_items (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON store_items TO mnema_app;

CREATE TABLE store_vectors (                        -- of all spaces; a search compares every vector of a namespace
    tenant_id  uuid NOT NULL,
    item_id    uuid NOT NULL,
    space      text NOT NULL,
    part       smallint NOT NULL,                   -- an item has one for each of its texts
    embedding  halfvec NOT NULL,
    PRIMARY KEY (tenant_id, item_id, space, part),
    FOREIGN KEY (tenant_id, item_id) REFERENCES store_items (tenant_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, DELETE ON store_vectors TO mnema_app;

-- Compare two values with `$eq`, `$ne`, `$gt`, `$gte`, `$lt` or `$lte`. The last four compare numbers, which may be
-- written as texts, or else texts; values that cannot be compared do not match. A missing value is null.
CREATE FUNCTION store_compares(v jsonb, p_operator text, w jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    v_number constant text := '^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$';
    v_longest constant int := 5000;  -- longer than any JSON number; a numeric can have far more digits
    v_text text := v#>>'{}';
    w_text text := w#>>'{}';
    v_order int;
BEGIN
    IF p_operator = '$eq' THEN RETURN coalesce(v, 'null') = w; END IF;
    IF p_operator = '$ne' THEN RETURN coalesce(v, 'null') <> w; END IF;
    IF coalesce(jsonb_typeof(v), 'null') NOT IN ('number', 'string') OR jsonb_typeof(w) NOT IN ('number', 'string') THEN
        RETURN false;
    END IF;
    IF length(v_text) <= v_longest AND length(w_text) <= v_longest AND v_text ~ v_number AND w_text ~ v_number THEN
        v_order := CASE WHEN v_text::numeric < w_text::numeric THEN -1 WHEN v_text::numeric > w_text::numeric
            THEN 1 ELSE 0 END;
    ELSIF jsonb_typeof(v) = 'string' AND jsonb_typeof(w) = 'string' THEN
        v_order := CASE WHEN v_text COLLATE "C" < w_text THEN -1 WHEN v_text COLLATE "C" > w_text THEN 1 ELSE 0 END;
    ELSE
        RETURN false;
    END IF;
    RETURN CASE p_operator WHEN '$gt' THEN v_order > 0 WHEN '$gte' THEN v_order >= 0 WHEN '$lt' THEN v_order < 0
                           WHEN '$lte' THEN v_order <= 0 ELSE false END;
END $$;

-- Return whether a value matches a filter: an object with operators, an object whose fields match (the value may have
-- more), a list whose elements match one by one, or the same value.
CREATE FUNCTION store_matches(v jsonb, f jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    e record;
BEGIN
    IF jsonb_typeof(f) = 'object' THEN
        IF EXISTS (SELECT 1 FROM jsonb_object_keys(f) k WHERE starts_with(k, '$')) THEN
            FOR e IN SELECT * FROM jsonb_each(f) LOOP
                IF NOT store_compares(v, e.key, e.value) THEN RETURN false; END IF;
            END LOOP;
            RETURN true;
        END IF;
        IF coalesce(jsonb_typeof(v), 'null') <> 'object' THEN RETURN false; END IF;
        FOR e IN SELECT * FROM jsonb_each(f) LOOP
            IF NOT store_matches(v->e.key, e.value) THEN RETURN false; END IF;
        END LOOP;
        RETURN true;
    ELSIF jsonb_typeof(f) = 'array' THEN
        IF coalesce(jsonb_typeof(v), 'null') <> 'array' THEN RETURN false; END IF;
        IF jsonb_array_length(v) <> jsonb_array_length(f) THEN RETURN false; END IF;
        FOR i IN 0 .. jsonb_array_length(f) - 1 LOOP
            IF NOT store_matches(v->i, f->i) THEN RETURN false; END IF;
        END LOOP;
        RETURN true;
    END IF;
    RETURN coalesce(v, 'null') = f;
END $$;

-- Return the labels of a path.
CREATE FUNCTION store_labels(p_path text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN string_to_array(rtrim(p_path, E'\x01'), E'\x01');

-- Return whether a namespace begins (`prefix`) or ends (`suffix`) with labels; the label '*' matches any.
CREATE FUNCTION namespace_matches(p_namespace text[], p_where text, p_path text[]) RETURNS boolean LANGUAGE sql
    IMMUTABLE PARALLEL SAFE AS $$
    SELECT cardinality(p_namespace) >= cardinality(p_path) AND NOT EXISTS (
        SELECT 1 FROM unnest(p_path) WITH ORDINALITY AS p(label, n)
        WHERE p.label <> '*' AND p.label <> p_namespace[
            n + CASE p_where WHEN 'suffix' THEN cardinality(p_namespace) - cardinality(p_path) ELSE 0 END])
$$;

-- Return the words of a text, each with the tenant before it. Punctuation separates words, blanks do not.
CREATE FUNCTION store_words(p_tenant uuid, p_text text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN array_remove(string_to_array(
        p_tenant::text || regexp_replace(p_text, E'[\x01!-/:-@[-`{-~]+', E'\x01' || p_tenant::text, 'g'), E'\x01'),
        p_tenant::text);

-- Return the labels and the key of an item and the words of them, each with the tenant before it. The tenant makes the
-- index find the items of one tenant only.
CREATE FUNCTION store_names(p_tenant uuid, p_path text, p_key text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN string_to_array(p_tenant::text || replace(p_path || p_key, E'\x01', E'\x01' || p_tenant::text), E'\x01')
        || store_words(p_tenant, p_path || p_key);
CREATE INDEX store_items_names ON store_items USING gin (store_names(tenant_id, path, key)) WHERE user_id IS NULL;

-- Return the items without user_id that may name a user: all that do, and some more. `@>` of arrays is not leakproof,
-- so row-level security keeps a query from the index; this function reaches it (security.sql). The tenant comes from
-- the transaction, never from a parameter.
CREATE FUNCTION items_mentioning_user(p_user text) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT i.id FROM store_items i WHERE i.tenant_id = current_tenant() AND i.user_id IS NULL
        AND (store_names(i.tenant_id, i.path, i.key) @> ARRAY[current_tenant()::text || p_user]
             OR store_words(current_tenant(), p_user) <> '{}'
                AND store_names(i.tenant_id, i.path, i.key) @> store_words(current_tenant(), p_user));
$$;

-- Return a user's items: those with the user_id, and those without one that name the user. An item names a user if the
-- key or a label of the namespace is the user's id, or has it between punctuation, such as `x-alice`. The second does
-- not count for an id that a part of a label may equal by chance, nor if the whole label is the id of somebody else.
CREATE FUNCTION items_of(p_tenant uuid, p_user text) RETURNS SETOF uuid LANGUAGE sql STABLE AS $$
    SELECT id FROM store_items WHERE tenant_id = p_tenant AND user_id = p_user
    UNION ALL
    SELECT i.id FROM items_mentioning_user(p_user) n JOIN store_items i ON i.tenant_id = p_tenant AND i.id = n
    WHERE EXISTS (
        SELECT FROM unnest(store_labels(i.path) || i.key) l
        WHERE l = p_user OR p_user !~ '^(.{1,2}|[0-9]{1,5})$'
            AND l ~ ('(^|[!-/:-@[-`{-~])' || regexp_replace(p_user, '([!-/:-@[-`{-~])', '\\\1', 'g')
                || '($|[!-/:-@[-`{-~])')
            AND NOT EXISTS (SELECT FROM users u WHERE u.tenant_id = p_tenant AND u.user_id = l)
            AND NOT EXISTS (SELECT FROM store_items o WHERE o.tenant_id = p_tenant AND o.user_id = l)
            AND NOT EXISTS (SELECT FROM supervisor_checkpoints c WHERE c.tenant_id = p_tenant AND c.user_id = l))
$$;

-- Delete a user's items and return how many. One that names several users goes with the first of them.
CREATE FUNCTION erase_items(p_tenant uuid, p_user text) RETURNS int LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM store_items WHERE tenant_id = p_tenant
        AND id = ANY (ARRAY (SELECT items_of(p_tenant, p_user)))
                  RETURNING 1)
    SELECT count(*)::int FROM gone
$$;

GRANT EXECUTE ON FUNCTION store_compares(jsonb, text, jsonb), store_matches(jsonb, jsonb),
    store_labels(text), namespace_matches(text[], text, text[]), items_mentioning_user(text), items_of(uuid, text),
    erase_items(uuid, text) TO mnema_app;
GRANT EXECUTE ON FUNCTION store_words(uuid, text), store_names(uuid, text, text) TO mnema_app, mnema_search;
