CREATE TABLE consolidation_pairs (
    tenant_id uuid NOT NULL,
    low uuid NOT NULL,
    high uuid NOT NULL,
    score real NOT NULL,
    user_pk bigint NOT NULL,
    same boolean,
    checked_at timestamp with time zone NOT NULL,
    CONSTRAINT consolidation_pairs_pkey PRIMARY KEY (tenant_id, low, high, score),
    CONSTRAINT consolidation_pairs_tenant_id_user_pk_fkey FOREIGN KEY (tenant_id, user_pk) REFERENCES users(tenant_id, user_pk) ON DELETE CASCADE
);

CREATE INDEX consolidation_pairs_of_user ON consolidation_pairs USING btree (tenant_id, user_pk, checked_at);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON consolidation_pairs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE consolidation_pairs DISABLE TRIGGER at_home;
