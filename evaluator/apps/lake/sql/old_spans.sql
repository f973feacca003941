-- The spans that the lake has of a slice's traces. The catalog knows which files hold which batches and sessions.
CREATE TEMP TABLE old_spans AS
SELECT spans.*
FROM lake.spans
SEMI JOIN (FROM planned WHERE old_session_id IS NOT NULL) AS known USING (trace_id)
WHERE seq BETWEEN {first} AND {last} AND session_id BETWEEN {first_session} AND {last_session}
