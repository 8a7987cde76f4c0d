-- No foreign keys lead to payments or attempts: each insert would make a multixact.

-- Tells payments of the same moment apart in lists.

CREATE SEQUENCE IF NOT EXISTS payment_number

CREATE TABLE IF NOT EXISTS payment (
    id uuid PRIMARY KEY,
    number bigint NOT NULL DEFAULT nextval('payment_number'),
    owner_kind smallint NOT NULL,
    owner bigint NOT NULL,
    reference bytea NOT NULL,
    merchant bigint NOT NULL,
    environment smallint NOT NULL,
    created_at bigint NOT NULL,
    order_id bytea NOT NULL,
    token_hash bytea NOT NULL,
    status smallint NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    ops bytea NOT NULL DEFAULT '',
    body bytea NOT NULL,
    CONSTRAINT payment_reference UNIQUE (owner_kind, owner, reference)
) WITH (fillfactor = 70)

CREATE UNIQUE INDEX IF NOT EXISTS payment_token ON payment (token_hash)

CREATE INDEX IF NOT EXISTS payment_created ON payment (created_at, number)

CREATE INDEX IF NOT EXISTS payment_merchant ON payment (merchant, created_at, number)

CREATE INDEX IF NOT EXISTS payment_order ON payment (order_id, created_at, number)

CREATE INDEX IF NOT EXISTS payment_reseller ON payment (owner, merchant, environment, created_at, number)
    WHERE owner_kind = 1

-- Payments that nodes have put into review and not out of it: so each hears of those of the others. An index by status
-- would make every step write to every index.

CREATE TABLE IF NOT EXISTS review (
    payment uuid PRIMARY KEY
)

CREATE TABLE IF NOT EXISTS due (
    payment uuid PRIMARY KEY,
    due_at bigint NOT NULL,
    claimed_until bigint,
    claim bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0)

CREATE INDEX IF NOT EXISTS due_at ON due (due_at)

CREATE TABLE IF NOT EXISTS attempt (
    payment uuid NOT NULL,
    ordinal smallint NOT NULL,
    id uuid NOT NULL,
    return_hash bytea NOT NULL,
    account text NOT NULL,
    in_use boolean NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (payment, ordinal)
) WITH (fillfactor = 70)

CREATE UNIQUE INDEX IF NOT EXISTS attempt_id ON attempt (id)

CREATE UNIQUE INDEX IF NOT EXISTS attempt_return ON attempt (return_hash)

CREATE INDEX IF NOT EXISTS attempt_in_use ON attempt (account) WHERE in_use

CREATE TABLE IF NOT EXISTS reference (
    account text NOT NULL,
    reference bytea NOT NULL,
    payment uuid,
    ordinal smallint,
    parked integer NOT NULL DEFAULT 0,
    until bigint,
    PRIMARY KEY (account, reference)
)

-- The user that serves forgets references that no attempt has, and neither removes nor changes one that an attempt has:
-- else a second attempt could be given it.

DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = 'reference'::regclass) THEN
        CREATE POLICY reference_read ON reference FOR SELECT USING (true);
        CREATE POLICY reference_add ON reference FOR INSERT WITH CHECK (true);
        CREATE POLICY reference_give ON reference FOR UPDATE USING (payment IS NULL) WITH CHECK (true);
        CREATE POLICY reference_forget ON reference FOR DELETE USING (payment IS NULL);
        ALTER TABLE reference ENABLE ROW LEVEL SECURITY;
    END IF;
END $$

CREATE INDEX IF NOT EXISTS reference_text ON reference (reference) WHERE payment IS NOT NULL

CREATE INDEX IF NOT EXISTS reference_until ON reference (until) WHERE payment IS NULL

CREATE TABLE IF NOT EXISTS parked (
    account text NOT NULL,
    reference bytea NOT NULL,
    ordinal integer NOT NULL,
    until bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (account, reference, ordinal)
)

CREATE INDEX IF NOT EXISTS parked_until ON parked (until)

CREATE TABLE IF NOT EXISTS search_reference (
    reference bytea NOT NULL,
    created_at bigint NOT NULL,
    number bigint NOT NULL,
    payment uuid NOT NULL,
    ordinal smallint NOT NULL,
    PRIMARY KEY (reference, created_at, number, ordinal)
)

-- By keyed hashes of a mailbox, an amount, last four digits and the ids of disputes.

CREATE TABLE IF NOT EXISTS search_mark (
    mark bytea NOT NULL,
    created_at bigint NOT NULL,
    number bigint NOT NULL,
    payment uuid NOT NULL,
    PRIMARY KEY (mark, created_at, number)
)

CREATE TABLE IF NOT EXISTS timeline (
    payment uuid NOT NULL,
    kind smallint NOT NULL,
    ordinal integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (payment, kind, ordinal)
)

CREATE TABLE IF NOT EXISTS event (
    merchant bigint NOT NULL,
    environment smallint NOT NULL,
    created_at bigint NOT NULL,
    id uuid NOT NULL,
    kind smallint NOT NULL,
    payment uuid NOT NULL,
    ordinal integer NOT NULL,
    PRIMARY KEY (merchant, environment, created_at, id)
)

CREATE INDEX IF NOT EXISTS event_id ON event (id)

CREATE TABLE IF NOT EXISTS work (
    id uuid PRIMARY KEY,
    attempt uuid NOT NULL,
    kind smallint NOT NULL,
    subject bytea NOT NULL,
    opened_at bigint NOT NULL,
    is_open boolean NOT NULL,
    body bytea NOT NULL
)

CREATE UNIQUE INDEX IF NOT EXISTS work_about ON work (attempt, kind, subject) WHERE is_open

CREATE INDEX IF NOT EXISTS work_opened ON work (opened_at, id)

CREATE INDEX IF NOT EXISTS work_open ON work (opened_at, id) WHERE is_open

CREATE TABLE IF NOT EXISTS refund (
    id uuid PRIMARY KEY,
    payment uuid NOT NULL,
    key bytea
)

CREATE UNIQUE INDEX IF NOT EXISTS refund_key ON refund (key) WHERE key IS NOT NULL
