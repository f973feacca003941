-- Sessions with simulated users: the turn at which the model went on (NULL: never), and whether lines were replayed.
WITH chosen AS ({chosen})
SELECT session_id, any_value(chosen.question_id), min(turn) FILTER (source = 'model'), bool_or(source = 'replay')
FROM derived.simulated_messages JOIN chosen USING (session_id)
GROUP BY session_id
ORDER BY ALL
