-- When a receiver that writes to this database started last, and the last record that had arrived by then: one row.
CREATE TABLE IF NOT EXISTS receiver_starts (seq BIGINT NOT NULL, time_ns BIGINT NOT NULL)
