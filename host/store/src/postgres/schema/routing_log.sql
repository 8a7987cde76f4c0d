-- Decisions and conversations for replay: some of one slot in a row, whose name is in the column method.

CREATE SEQUENCE IF NOT EXISTS routing_log_number

CREATE TABLE IF NOT EXISTS routing_log (
    method text NOT NULL,
    at bigint NOT NULL,
    number bigint NOT NULL,
    records integer NOT NULL,
    bytes integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (method, at, number)
)

CREATE INDEX IF NOT EXISTS routing_log_at ON routing_log (at, number) INCLUDE (bytes)
