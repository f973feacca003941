-- Sessions that must be derived from all their spans: the spans are read once all new traces are known.
CREATE TABLE derived.read_again (session_id VARCHAR NOT NULL)
