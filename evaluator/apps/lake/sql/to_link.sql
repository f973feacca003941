-- The traces that SQL cannot place alone, in the order in which conversations go on, some thousands at a time.
CREATE TABLE to_link AS
SELECT
    trace_id,
    placed.session_id,
    placed.records,
    placed.start_ns,
    placed.history,
    placed.request,
    digests,
    placed.conversation_id,
    known.trace_id IS NOT NULL AS is_known,
    (row_number() OVER (ORDER BY placed.start_ns, trace_id) - 1) // $at_once AS number
FROM placed
SEMI JOIN hard USING (trace_id)
LEFT JOIN known USING (trace_id)
