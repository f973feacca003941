-- Whether any trace of the last import is in a session; without an import, any trace of the database.
SELECT EXISTS (
    FROM derived.traces
    SEMI JOIN derived.sessions USING (session_id)
    WHERE trace_id IN (FROM last_import) OR NOT EXISTS (FROM last_import)
)
