-- How many steps derivation has taken: what a process has observed is of no use once another one has taken a step.
CREATE TABLE derived.steps (number BIGINT NOT NULL)
