-- The sessions that `watch` has graded: a row per grading. `scores` and `verdicts` of the same run are written in the
-- same transaction.
CREATE TABLE IF NOT EXISTS watched (
    session_id  VARCHAR NOT NULL,
    gates       VARCHAR NOT NULL,  -- digest of what the session was graded by
    content     VARCHAR NOT NULL,  -- digest of the session as it was
    seq         BIGINT NOT NULL,   -- its last arrival then
    run_id      VARCHAR NOT NULL,
    verdict     VARCHAR NOT NULL,
    graded_ns   BIGINT NOT NULL
);
-- How far `watch` has looked for new arrivals, and when.
CREATE TABLE IF NOT EXISTS watch_progress (
    gates    VARCHAR NOT NULL,
    seq      BIGINT NOT NULL,
    time_ns  BIGINT NOT NULL,
    since_ns BIGINT             -- the first start by these gates; NULL: of an earlier version
);
ALTER TABLE watch_progress ADD COLUMN IF NOT EXISTS since_ns BIGINT;
-- What is still to be sent: a row is deleted once the receiver has accepted it.
CREATE TABLE IF NOT EXISTS deliveries (
    id           VARCHAR NOT NULL,  -- the same for the same session, content and gates
    kind         VARCHAR NOT NULL,  -- webhook or otlp
    session_id   VARCHAR NOT NULL,
    body         VARCHAR NOT NULL,  -- JSON
    attempts     INTEGER NOT NULL,
    next_ns      BIGINT,            -- the time of the next attempt; NULL: given up
    last_error   VARCHAR,
    mark         VARCHAR            -- what only the installation that wrote the message can make
);
ALTER TABLE deliveries ADD COLUMN IF NOT EXISTS mark VARCHAR;
-- The metrics that `watch` exports, counted since the first session that it graded.
CREATE TABLE IF NOT EXISTS watch_totals (
    name        VARCHAR NOT NULL,
    attributes  VARCHAR NOT NULL,  -- JSON
    start_ns    BIGINT NOT NULL,
    count       BIGINT NOT NULL,
    sum         DOUBLE NOT NULL,
    min         DOUBLE,            -- NULL: a counter
    max         DOUBLE,
    buckets     BIGINT[]
);
-- What the judge was asked and cost, a row per batch of sessions.
CREATE TABLE IF NOT EXISTS watch_spending (
    time_ns   BIGINT NOT NULL,
    calls     BIGINT NOT NULL,
    cost_usd  DOUBLE            -- NULL: unknown
);
-- The alarms of the alerts in the settings: a row per stream of sessions; those with one cause have one id.
CREATE TABLE IF NOT EXISTS alarms (
    alarm_id    VARCHAR NOT NULL,
    alert       VARCHAR NOT NULL,  -- its condition
    rule        VARCHAR NOT NULL,  -- the alert as JSON
    stream_by   VARCHAR,           -- agent, service, version, model or environment; NULL: all sessions
    stream      VARCHAR NOT NULL,  -- empty: not recorded, or all sessions
    cause       VARCHAR,           -- what most of the failures have in common
    started_ns  BIGINT NOT NULL,
    ended_ns    BIGINT,            -- NULL: it is still on
    since_ns    BIGINT NOT NULL,   -- the start of the sessions that show it
    sessions    BIGINT NOT NULL,   -- how many they are
    value       DOUBLE NOT NULL,   -- their mean, or the share beyond the limit; of silence, seconds
    limit_value DOUBLE NOT NULL,
    before      DOUBLE,            -- the share beyond the limit before, where it is compared with that
    text        VARCHAR NOT NULL,  -- what is said to people
    filters     VARCHAR NOT NULL   -- JSON: what chooses the sessions in their list
);
-- Sessions that show an alarm, the first `place` first.
CREATE TABLE IF NOT EXISTS alarm_sessions (
    alarm_id    VARCHAR NOT NULL,
    stream      VARCHAR NOT NULL,
    place       BIGINT NOT NULL,
    session_id  VARCHAR NOT NULL
);
