-- The logs of a landing file that are not to be deleted; one without a trace and a session has only its own time.
FROM read_parquet({file}, hive_partitioning = false)
WHERE NOT CASE
    WHEN trace_id IS NOT NULL THEN trace_id IN (FROM read_parquet({traces}))
    WHEN (attributes::JSON->>'$."gen_ai.conversation.id"') IS NOT NULL
        THEN (attributes::JSON->>'$."gen_ai.conversation.id"') IN (FROM read_parquet({sessions}))
    ELSE time_ns < {before}
END
