-- The traces of the lake, and of what landed, with a call that another trace has too: `is_same` of link_traces.py.
SELECT DISTINCT {kind}.trace_id
FROM {one} AS one
JOIN {other} AS other
    ON one.call_key = other.call_key
    AND one.trace_id <> other.trace_id
    AND one.scope IS DISTINCT FROM other.scope
    AND (one.provider = other.provider OR one.provider IS NULL OR other.provider IS NULL)
    AND (greatest(one.start_ns, other.start_ns) < least(one.end_ns, other.end_ns) OR one.start_ns = other.start_ns)
