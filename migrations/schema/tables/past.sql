-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE TABLE past_minilm_l6_v2 (
    tenant_id uuid NOT NULL,
    user_pk bigint NOT NULL,
    memory_id uuid NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    category text NOT NULL,
    today text NOT NULL,
    state text NOT NULL,
    expires_at timestamp with time zone,
    embedding halfvec(384),
    tokens bytea STORAGE EXTERNAL,
    tsv tsvector NOT NULL,
    CONSTRAINT past_minilm_l6_v2_pkey PRIMARY KEY (tenant_id, memory_id, until),
    CONSTRAINT past_minilm_l6_v2_tenant_id_memory_id_fkey FOREIGN KEY (tenant_id, memory_id) REFERENCES memories(tenant_id, id) ON DELETE CASCADE
);

CREATE INDEX past_minilm_l6_v2_tenant_id_user_pk_until_since_memory_id_idx ON past_minilm_l6_v2 USING btree (tenant_id, user_pk, until, since) INCLUDE (memory_id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON past_minilm_l6_v2 FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE past_minilm_l6_v2 DISABLE TRIGGER at_home;
