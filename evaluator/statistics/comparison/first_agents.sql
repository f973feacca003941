-- The agents that began the chosen sessions.
SELECT DISTINCT agents[1]
FROM derived.sessions SEMI JOIN ({chosen}) USING (session_id)
WHERE len(agents) > 0
