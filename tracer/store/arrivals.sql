-- From `first_seq` on, records arrived at `time_ns` or later.
CREATE TABLE IF NOT EXISTS arrivals (first_seq BIGINT NOT NULL, time_ns BIGINT NOT NULL)
