-- The sessions that did what another did: the same steps in the same order, those that repeat each other once. What is compared
-- first are columns of the sessions, of which few are alike.
WITH steps AS (
    SELECT session_id, list(name ORDER BY position) AS names
    FROM (
        SELECT session_id, position, name, lag(name) OVER (PARTITION BY session_id ORDER BY position) AS before
        FROM derived.trajectory
        SEMI JOIN (
            SELECT alike.session_id FROM derived.sessions AS alike
            JOIN (SELECT tools, agents FROM derived.sessions WHERE session_id = $similar) AS given
                ON alike.tools IS NOT DISTINCT FROM given.tools AND alike.agents IS NOT DISTINCT FROM given.agents
        ) USING (session_id)
    )
    WHERE before IS DISTINCT FROM name
    GROUP BY session_id
)
SELECT session_id FROM steps WHERE names = (SELECT names FROM steps WHERE session_id = $similar)
UNION ALL
SELECT $similar
