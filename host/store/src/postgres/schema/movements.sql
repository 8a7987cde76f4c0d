-- Movements of money. The payment is nil for money of an unknown payment.

CREATE TABLE IF NOT EXISTS movement (
    payment uuid NOT NULL,
    id uuid NOT NULL,
    booked_at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (payment, id)
)

CREATE INDEX IF NOT EXISTS movement_booked ON movement (booked_at, id)

-- How far the ledger is closed. Every write of a movement reads it, and none locks it.

CREATE TABLE IF NOT EXISTS ledger (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    closed_until bigint NOT NULL,
    body bytea NOT NULL
)

INSERT INTO ledger (closed_until, body) VALUES (0, '') ON CONFLICT DO NOTHING
