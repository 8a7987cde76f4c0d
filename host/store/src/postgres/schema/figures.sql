-- Figures of payments by period, for the overview.

CREATE TABLE IF NOT EXISTS figures (
    environment smallint NOT NULL,
    begin bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (environment, begin)
)
