-- How far derivation has come.
CREATE TABLE derived.progress (
    fingerprint  VARCHAR NOT NULL,  -- of what decided the derivation of these tables
    seq          BIGINT NOT NULL    -- spans and logs up to this arrival are in them
)
