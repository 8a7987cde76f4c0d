-- Webhook endpoints, events and their deliveries. No foreign keys lead to events or deliveries.

CREATE TABLE IF NOT EXISTS endpoint (
    id uuid PRIMARY KEY,
    merchant bigint NOT NULL,
    environment smallint NOT NULL,
    created_at bigint NOT NULL,
    enabled boolean NOT NULL,
    wants bigint NOT NULL,
    body bytea NOT NULL
)

-- Of a merchant's endpoint 0; of a reseller's the merchant is 0, which is none's number.
ALTER TABLE endpoint ADD COLUMN IF NOT EXISTS reseller bigint NOT NULL DEFAULT 0

CREATE INDEX IF NOT EXISTS endpoint_owner ON endpoint (merchant, reseller, created_at, id)

CREATE TABLE IF NOT EXISTS event_body (
    id uuid PRIMARY KEY,
    kind smallint NOT NULL,
    payment uuid NOT NULL,
    body bytea NOT NULL,
    deliveries integer NOT NULL
)

CREATE TABLE IF NOT EXISTS delivery (
    id uuid PRIMARY KEY,
    event uuid NOT NULL,
    kind smallint NOT NULL,
    endpoint uuid NOT NULL,
    payment uuid NOT NULL,
    status smallint NOT NULL,
    created_at bigint NOT NULL,
    next_at bigint,
    leased_until bigint NOT NULL DEFAULT 0,
    attempts smallint NOT NULL DEFAULT 0,
    log bytea,
    queued_again boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0)

CREATE INDEX IF NOT EXISTS delivery_due ON delivery (endpoint, next_at, id) INCLUDE (created_at) WHERE status = 0

CREATE INDEX IF NOT EXISTS delivery_endpoint ON delivery (endpoint, id)

CREATE INDEX IF NOT EXISTS delivery_payment ON delivery (payment, id)

CREATE INDEX IF NOT EXISTS delivery_event ON delivery (event, id)

CREATE INDEX IF NOT EXISTS delivery_exhausted ON delivery (endpoint, id) WHERE status = 2
