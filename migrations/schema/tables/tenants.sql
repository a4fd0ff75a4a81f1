CREATE TABLE tenants (
    id uuid NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT tenants_pkey PRIMARY KEY (id),
    CONSTRAINT tenants_name_key UNIQUE (name),
    CONSTRAINT tenants_name_check CHECK (length(name) >= 1 AND length(name) <= 200)
);

CREATE TRIGGER directory_here BEFORE INSERT OR DELETE OR UPDATE ON tenants FOR EACH STATEMENT EXECUTE FUNCTION refuse_copy();
ALTER TABLE tenants DISABLE TRIGGER directory_here;
