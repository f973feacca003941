-- The spans of otel-desktop-viewer's database, whose attributes are in a table of their own, as rows of spans.
-- https://github.com/CtrlSpice/otel-desktop-viewer/tree/main/desktopexporter/internal/store/queries/ddl/tables
WITH
own AS (SELECT trace_id, span_id, unnest(attribute_ids) AS id FROM spans),
of_span AS (
    SELECT trace_id, span_id, list(json_object('key', key, 'value', value)) AS attributes
    FROM own JOIN attributes USING (id)
    GROUP BY ALL
),
of_resource AS (
    SELECT owner AS resource_id, list(json_object('key', key, 'value', value)) AS resource
    FROM (SELECT id AS owner, unnest(attribute_ids) AS id FROM resources) JOIN attributes USING (id)
    GROUP BY ALL
),
of_event AS (
    SELECT owner AS event_id, list(json_object('key', key, 'value', value)) AS attributes
    FROM (SELECT id AS owner, unnest(attribute_ids) AS id FROM events) JOIN attributes USING (id)
    GROUP BY ALL
),
span_events AS (
    SELECT
        trace_id,
        span_id,
        list(
            json_object('name', name, 'time_ns', "timestamp", 'attributes', of_event.attributes)
            ORDER BY "timestamp"
        ) AS events
    FROM events LEFT JOIN of_event ON of_event.event_id = events.id
    GROUP BY ALL
)
SELECT
    spans.trace_id,
    spans.span_id,
    spans.parent_span_id,
    spans.name,
    spans.kind,
    spans.start_time AS start_ns,
    spans.end_time AS end_ns,
    spans.status_code AS status,
    spans.status_message,
    spans.trace_state,
    coalesce(of_span.attributes, []) AS attributes,
    span_events.events,
    of_resource.resource,
    scopes.name AS scope_name,
    scopes.version AS scope_version
FROM spans
LEFT JOIN of_span USING (trace_id, span_id)
LEFT JOIN span_events USING (trace_id, span_id)
LEFT JOIN of_resource USING (resource_id)
LEFT JOIN scopes ON scopes.id = spans.scope_id
