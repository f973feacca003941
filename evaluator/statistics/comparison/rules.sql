-- The versions of the rules that judged the chosen sessions (NULL: not recorded), and the datasets.
SELECT DISTINCT rules, dataset
FROM runs SEMI JOIN ({chosen}) USING (run_id)
