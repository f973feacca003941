-- The spans that the lake has and for which one of a higher rank landed.
CREATE TEMP TABLE outranked AS
SELECT trace_id, span_id FROM old_spans SEMI JOIN new_spans USING (trace_id, span_id)
