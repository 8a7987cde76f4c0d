-- What is not kept for ever: how far each rule is along payments in order of their creation, and payments that were
-- not over when their turn came.

CREATE TABLE IF NOT EXISTS forgotten (
    rule smallint PRIMARY KEY,
    created_at bigint NOT NULL,
    number bigint NOT NULL
)

CREATE TABLE IF NOT EXISTS laggard (
    rule smallint NOT NULL,
    payment uuid NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (rule, payment)
)

CREATE INDEX IF NOT EXISTS laggard_at ON laggard (at)
