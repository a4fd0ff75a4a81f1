-- Calls of a chat model: what each was for and what it cost. Nothing that anybody said is in them.
CREATE TABLE llm_calls (
    tenant_id      uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id             uuid NOT NULL,
    ts             timestamptz NOT NULL DEFAULT now(),
    prompt         text NOT NULL,
    version        smallint NOT NULL,
    model          text NOT NULL,
    attempt        smallint NOT NULL CHECK (attempt > 0),   -- 2: asked again, for the first answer broke a rule
    input_tokens   integer NOT NULL,
    output_tokens  integer NOT NULL,
    duration_ms    integer NOT NULL,
    items          smallint NOT NULL,                       -- things in the answer that the rules look at one by one …
    items_ok       smallint NOT NULL,                       -- … and how many keep them
    first_pass_ok  boolean NOT NULL,                        -- kept every rule, and at once
    status         text NOT NULL CHECK (status IN ('ok', 'refused', 'error')),
    error          text,                                    -- a code: of the rule that was broken, or of the failure
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX llm_calls_by_age ON llm_calls (tenant_id, ts);

-- Tokens of a tenant and day (UTC): reserved before a call, corrected after it.
CREATE TABLE llm_budget (
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day        date NOT NULL,
    tokens     bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (tenant_id, day)
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['llm_calls', 'llm_budget'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;
GRANT SELECT, INSERT, DELETE ON llm_calls TO mnema_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_budget TO mnema_app;
