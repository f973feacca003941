-- How many of the chosen verdicts are older than their sessions.
SELECT count(*) FROM ({chosen}) AS chosen SEMI JOIN {arrived_since} USING (run_id, session_id)
