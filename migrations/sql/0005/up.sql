-- A tenant's chat endpoints: one for each API that endpoints speak. Those of before speak OpenAI's.

ALTER TABLE chat_upstreams
    ADD COLUMN dialect text NOT NULL DEFAULT 'openai' CHECK (dialect IN ('openai', 'anthropic')),
    DROP CONSTRAINT chat_upstreams_pkey,
    ADD PRIMARY KEY (tenant_id, dialect);
