-- The sessions of a run that answer a question, each by its question and, if the run is of several versions of the
-- agent or several models, by these: sessions of another version or model do not repeat each other.
-- Models tell sessions apart only if no two sets of them overlap: else one agent uses another model at times. A session
-- without a model call belongs to those of the most common models.
WITH of_run AS (
    SELECT
        verdicts.session_id, verdicts.question_id, verdicts.verdict, verdicts.reason,
        coalesce(agent_version, 'unknown') AS agent_version,
        nullif(list_sort(models::JSON::VARCHAR[]), []) AS models
    FROM verdicts LEFT JOIN derived.sessions AS sessions ON sessions.session_id = verdicts.session_id
    WHERE run_id = $run_id AND verdicts.session_id IS NOT NULL AND verdicts.question_id IS NOT NULL
), sets AS (
    SELECT models, count(*) AS sessions FROM of_run WHERE models IS NOT NULL GROUP BY models
), of_all AS (
    SELECT
        (SELECT count(DISTINCT agent_version) FROM of_run) AS versions,
        (SELECT if(sum(len(models)) = len(list_distinct(flatten(list(models)))), count(*), 1) FROM sets) AS sets,
        (SELECT arg_max(models, (sessions, models)) FROM sets) AS common
)
SELECT
    session_id, verdict, reason,
    question_id
        || if(versions > 1, ', version ' || agent_version, '')
        || if(sets > 1, ', ' || array_to_string(coalesce(models, common), ' + '), '') AS name,
    versions, coalesce(sets, 1) AS sets
FROM of_run CROSS JOIN of_all
