-- The sessions of a run that answer a question, each by its question and, if the run is of several versions of the
-- agent, several prompts or several models, by these: sessions of another one do not repeat each other.
-- Where no version is declared, sessions that another `spangrade run` made do not either: the agent may have changed.
-- Models and prompts tell sessions apart only if no two sets of them overlap: else one agent uses another one at times.
-- A session without a model call belongs to those of the most common models, and likewise without a prompt.
WITH of_run AS (
    SELECT
        cells.session_id, cells.question_id, verdict, reason,
        coalesce(agent_version, 'unknown') AS agent_version,
        if(agent_version IS NULL, origin_run, NULL) AS origin_run,
        nullif(list_sort(models::JSON::VARCHAR[]), []) AS models,
        nullif(list_sort(prompts::JSON::VARCHAR[]), []) AS prompts
    FROM {run_cells} AS cells LEFT JOIN derived.sessions USING (session_id)
    WHERE run_id = $run_id AND cells.session_id IS NOT NULL AND cells.question_id IS NOT NULL
), sets AS (
    SELECT models, count(*) AS sessions FROM of_run WHERE models IS NOT NULL GROUP BY models
), prompt_sets AS (
    SELECT prompts, count(*) AS sessions FROM of_run WHERE prompts IS NOT NULL GROUP BY prompts
), of_all AS (
    SELECT
        (SELECT count(DISTINCT agent_version) FROM of_run) AS versions,
        (SELECT count(DISTINCT coalesce(origin_run, '')) FROM of_run WHERE agent_version = 'unknown') AS runs,
        (SELECT if(sum(len(models)) = len(list_distinct(flatten(list(models)))), count(*), 1) FROM sets) AS sets,
        (SELECT arg_max(models, (sessions, models)) FROM sets) AS common,
        (SELECT if(sum(len(prompts)) = len(list_distinct(flatten(list(prompts)))), count(*), 1) FROM prompt_sets)
            AS prompt_sets,
        (SELECT arg_max(prompts, (sessions, prompts)) FROM prompt_sets) AS common_prompts
)
SELECT
    session_id, question_id, verdict, reason,
    question_id
        || if(versions > 1, ', version ' || agent_version, '')
        || if(runs > 1, coalesce(', run ' || origin_run, ''), '')
        || if(prompt_sets > 1, ', prompt ' || array_to_string(coalesce(prompts, common_prompts), ' + '), '')
        || if(sets > 1, ', ' || array_to_string(coalesce(models, common), ' + '), '') AS name,
    versions, coalesce(sets, 1) AS sets, coalesce(prompt_sets, 1) AS prompt_sets, greatest(runs, 1) AS runs
FROM of_run CROSS JOIN of_all
