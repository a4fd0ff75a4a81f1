-- Reflection: how far each kind of it has read, and the calls of the chat model.

-- A row changes in the transaction that stores the result, so that no turn is read twice and two workers together do
-- not exceed a limit.
CREATE TABLE reflections (
    tenant_id  uuid NOT NULL,
    user_id    text NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('episode', 'summary', 'insight', 'day')),
    -- '' if the kind is not about one thread; for `day`, what is counted
    thread_id  text NOT NULL,
    rev        bigint NOT NULL,                     -- the last revision that was read; for `day`, the count of its day
    at         timestamptz NOT NULL,
    tries      smallint NOT NULL DEFAULT 0,         -- failed model calls in a row after `rev`; the next one reads less
    PRIMARY KEY (tenant_id, user_id, kind, thread_id),
    FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, user_id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, UPDATE, DELETE ON reflections TO mnema_app;

-- The purpose and the cost of each model call, without any text of a user.
CREATE TABLE llm_calls (
    tenant_id      uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id             uuid NOT NULL,
    ts             timestamptz NOT NULL DEFAULT now(),
    prompt         text NOT NULL,
    version        smallint NOT NULL,
    model          text NOT NULL,
    attempt        smallint NOT NULL CHECK (attempt > 0),   -- 2: a retry, because the first answer broke a rule
    input_tokens   integer NOT NULL,
    output_tokens  integer NOT NULL,
    duration_ms    integer NOT NULL,
    items          smallint NOT NULL,                       -- items of the answer that were validated one by one
    items_ok       smallint NOT NULL,                       -- valid ones among them
    first_pass_ok  boolean NOT NULL,                        -- the first answer was valid
    status         text NOT NULL CHECK (status IN ('ok', 'refused', 'error')),
    error          text,                                    -- the code of the broken rule or of the failure
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX llm_calls_by_age ON llm_calls (tenant_id, ts);
GRANT SELECT, INSERT, DELETE ON llm_calls TO mnema_app;

-- The tokens of a tenant on a day (UTC): reserved before a call and corrected after it.
CREATE TABLE llm_budget (
    tenant_id  uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day        date NOT NULL,
    tokens     bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (tenant_id, day)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON llm_budget TO mnema_app;
