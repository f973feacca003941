-- The sessions in which a text occurs, in any case: in messages, in arguments and results of calls, or in an id. The
-- ids of traces, spans and calls are found whole: $id is the text, NULL if it cannot be one. $json is the text as JSON has it inside of a string.
SELECT session_id
FROM derived.turns
WHERE contains(lower(user_input), lower($text)) OR contains(lower(final_response), lower($text))
UNION ALL
SELECT session_id
FROM derived.tool_interactions
WHERE contains(lower(input_arguments), lower($text))
   OR contains(lower(output), lower($text))
   OR ($json <> $text AND (contains(lower(input_arguments), lower($json)) OR contains(lower(output), lower($json))))
   OR span_id = $id
   OR call_id = $id
UNION ALL
SELECT session_id
FROM derived.requested_calls
WHERE contains(lower(input_arguments), lower($text))
   OR ($json <> $text AND contains(lower(input_arguments), lower($json)))
   OR call_id = $id
UNION ALL
SELECT session_id
FROM derived.llm_calls
WHERE span_id = $id
UNION ALL
SELECT session_id
FROM derived.traces
WHERE trace_id = $id
UNION ALL
SELECT session_id
FROM derived.sessions
WHERE contains(lower(session_id), lower($text))
   OR contains(lower(question_id), lower($text))
   OR contains(lower(user_id), lower($text))
