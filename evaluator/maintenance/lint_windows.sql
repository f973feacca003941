-- The traces of all sessions, or of some, in the order of arrival, about as many records at a time as are asked for:
-- from which first record to which they begin, and the last record of any of them. Traces that begin at one place, as
-- all of a batch of a lake do, stay together.
SELECT min(first_seq), max(first_seq), max(last_seq)
FROM (
    SELECT first_seq, last_seq, sum(records) OVER (ORDER BY first_seq) // $most AS part
    FROM derived.traces
    WHERE $sessions IS NULL OR session_id IN (SELECT unnest($sessions::VARCHAR[]))
)
GROUP BY part
ORDER BY part
