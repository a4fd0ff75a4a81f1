CREATE TABLE epochs (
    number smallint NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    database text NOT NULL,
    started_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT epochs_pkey PRIMARY KEY (number)
);

CREATE TRIGGER epochs_numbered BEFORE INSERT ON epochs FOR EACH ROW EXECUTE FUNCTION number_epoch();
