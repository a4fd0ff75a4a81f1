-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE TABLE vec_minilm_l6_v2 (
    tenant_id uuid NOT NULL,
    user_pk bigint NOT NULL,
    memory_id uuid NOT NULL,
    type text NOT NULL,
    category text NOT NULL,
    state text NOT NULL,
    thread_key bigint,
    embedding halfvec(384) NOT NULL,
    tokens bytea STORAGE EXTERNAL,
    indexed boolean NOT NULL DEFAULT false,
    CONSTRAINT vec_minilm_l6_v2_pkey PRIMARY KEY (tenant_id, memory_id),
    CONSTRAINT vec_minilm_l6_v2_tenant_id_memory_id_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memories(tenant_id, id) ON DELETE CASCADE
) PARTITION BY HASH (tenant_id);

CREATE TABLE vec_minilm_l6_v2_p0 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 0) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p1 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 1) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p2 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 2) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p3 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 3) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p4 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 4) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p5 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 5) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p6 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 6) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p7 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 7) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p8 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 8) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p9 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 9) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p10 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 10) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p11 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 11) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p12 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 12) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p13 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 13) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p14 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 14) WITH (toast_tuple_target=8160);
CREATE TABLE vec_minilm_l6_v2_p15 PARTITION OF vec_minilm_l6_v2 FOR VALUES WITH (modulus 16, remainder 15) WITH (toast_tuple_target=8160);

CREATE INDEX vec_minilm_l6_v2_embedding_idx ON ONLY vec_minilm_l6_v2 USING hnsw (embedding halfvec_cosine_ops) WHERE indexed AND state = 'active'::text AND type <> 'chunk'::text;
CREATE INDEX vec_minilm_l6_v2_embedding_idx1 ON ONLY vec_minilm_l6_v2 USING hnsw (embedding halfvec_cosine_ops) WHERE indexed AND state = 'active'::text AND type = 'chunk'::text;
CREATE INDEX vec_minilm_l6_v2_tenant_id_memory_id_idx ON ONLY vec_minilm_l6_v2 USING btree (tenant_id, memory_id) WHERE NOT indexed AND state = 'active'::text AND type <> 'chunk'::text;
CREATE INDEX vec_minilm_l6_v2_tenant_id_memory_id_idx1 ON ONLY vec_minilm_l6_v2 USING btree (tenant_id, memory_id) WHERE NOT indexed AND state = 'active'::text AND type = 'chunk'::text;
CREATE INDEX vec_minilm_l6_v2_tenant_id_user_pk_memory_id_type_category__idx ON ONLY vec_minilm_l6_v2 USING btree (tenant_id, user_pk) INCLUDE (memory_id, type, category, thread_key, embedding) WHERE state = 'active'::text AND type <> 'chunk'::text;
CREATE INDEX vec_minilm_l6_v2_tenant_id_user_pk_memory_id_type_category_idx1 ON ONLY vec_minilm_l6_v2 USING btree (tenant_id, user_pk) INCLUDE (memory_id, type, category, thread_key, embedding) WHERE state = 'active'::text AND type = 'chunk'::text;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON vec_minilm_l6_v2 FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE vec_minilm_l6_v2 DISABLE TRIGGER at_home;
