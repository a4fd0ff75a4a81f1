-- What agents keep under names of their own: values by namespace and key, as LangGraph's store has them.
CREATE TABLE store_items (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    -- the namespace's labels, each closed by U+0001, by bytes: what begins with one lies side by side. Not text[]: its
    -- comparisons are not leakproof, so under row-level security no index would be used
    path        text COLLATE "C" NOT NULL CHECK (path <> ''),
    key         text COLLATE "C" NOT NULL,
    value       jsonb NOT NULL,
    size        integer NOT NULL,                   -- of the value, in bytes
    indexed     text[],                             -- the paths whose texts have vectors
    user_id     text,                               -- whose it is: it goes when they are erased
    ttl         interval,                           -- how long it is kept after it was last read or written
    expires_at  timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, path, key),
    CHECK ((ttl IS NULL) = (expires_at IS NULL))
);
CREATE INDEX store_items_of_user ON store_items (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX store_items_expiring ON store_items (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE store_vectors (                        -- of any space: compared by looking at every one of a namespace
    tenant_id  uuid NOT NULL,
    item_id    uuid NOT NULL,
    space      text NOT NULL,
    part       smallint NOT NULL,                   -- an item has one for each of its texts
    embedding  halfvec NOT NULL,
    PRIMARY KEY (tenant_id, item_id, space, part),
    FOREIGN KEY (tenant_id, item_id) REFERENCES store_items (tenant_id, id) ON DELETE CASCADE
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['store_items', 'store_vectors'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON store_items TO mnema_app;
GRANT SELECT, INSERT, DELETE ON store_vectors TO mnema_app;

-- `$eq`, `$ne`, and `$gt`, `$gte`, `$lt`, `$lte` between numbers (also written as texts) or else between texts; whatever
-- cannot be compared does not match. A missing value is null.
CREATE FUNCTION store_compares(v jsonb, p_operator text, w jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
    v_number constant text := '^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$';
    v_text text := v#>>'{}';
    w_text text := w#>>'{}';
    v_order int;
BEGIN
    IF p_operator = '$eq' THEN RETURN coalesce(v, 'null') = w; END IF;
    IF p_operator = '$ne' THEN RETURN coalesce(v, 'null') <> w; END IF;
    IF coalesce(jsonb_typeof(v), 'null') NOT IN ('number', 'string') OR jsonb_typeof(w) NOT IN ('number', 'string') THEN
        RETURN false;
    END IF;
    IF v_text ~ v_number AND w_text ~ v_number THEN
        v_order := CASE WHEN v_text::numeric < w_text::numeric THEN -1 WHEN v_text::numeric > w_text::numeric THEN 1 ELSE 0 END;
    ELSIF jsonb_typeof(v) = 'string' AND jsonb_typeof(w) = 'string' THEN
        v_order := CASE WHEN v_text COLLATE "C" < w_text THEN -1 WHEN v_text COLLATE "C" > w_text THEN 1 ELSE 0 END;
    ELSE
        RETURN false;
    END IF;
    RETURN CASE p_operator WHEN '$gt' THEN v_order > 0 WHEN '$gte' THEN v_order >= 0 WHEN '$lt' THEN v_order < 0
                           WHEN '$lte' THEN v_order <= 0 ELSE false END;
END $$;

-- Whether a value is as a filter wants it: operators, else an object whose fields match (others may be there), else a
-- list whose elements match one by one, else the same value.
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

-- The labels of a path.
CREATE FUNCTION store_labels(p_path text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN string_to_array(rtrim(p_path, E'\x01'), E'\x01');

-- Whether a namespace begins ('prefix') or ends ('suffix') with labels of which '*' is any.
CREATE FUNCTION store_lies_in(p_namespace text[], p_where text, p_path text[]) RETURNS boolean LANGUAGE sql
    IMMUTABLE PARALLEL SAFE AS $$
    SELECT cardinality(p_namespace) >= cardinality(p_path) AND NOT EXISTS (
        SELECT 1 FROM unnest(p_path) WITH ORDINALITY AS p(label, n)
        WHERE p.label <> '*' AND p.label <> p_namespace[
            n + CASE p_where WHEN 'suffix' THEN cardinality(p_namespace) - cardinality(p_path) ELSE 0 END])
$$;
GRANT EXECUTE ON FUNCTION store_compares(jsonb, text, jsonb), store_matches(jsonb, jsonb),
    store_labels(text), store_lies_in(text[], text, text[]) TO mnema_app;
