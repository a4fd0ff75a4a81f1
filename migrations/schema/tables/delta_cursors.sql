CREATE TABLE delta_cursors (
    tenant_id uuid NOT NULL,
    thread_id text NOT NULL,
    agent text NOT NULL,
    rev bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL DEFAULT now(),
    user_id text NOT NULL DEFAULT ''::text,
    CONSTRAINT delta_cursors_pkey PRIMARY KEY (tenant_id, user_id, thread_id, agent)
) WITH (fillfactor=70);
