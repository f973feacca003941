-- When a receiver started to write to this database for the first time, and the last record that was there: one row.
CREATE TABLE IF NOT EXISTS receiver_starts (seq BIGINT NOT NULL, time_ns BIGINT NOT NULL)
