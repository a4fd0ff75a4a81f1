CREATE TABLE llm_budget (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    tokens bigint NOT NULL,
    CONSTRAINT llm_budget_pkey PRIMARY KEY (tenant_id, day),
    CONSTRAINT llm_budget_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT llm_budget_tokens_check CHECK (tokens >= 0)
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON llm_budget FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE llm_budget DISABLE TRIGGER at_home;
