-- Of the sessions of each stream: how many, the value beyond which a tenth or less is, and what share that is. If more than
-- nine in ten have the best value, it is beyond that.
WITH sessions AS (SELECT stream, $sign * value AS bad FROM ({sessions})),
usual AS (SELECT stream, quantile_disc(bad, 0.9) AS usual FROM sessions GROUP BY stream),
cut AS (
    SELECT stream, coalesce(max(bad) FILTER (bad < usual), any_value(usual)) AS cut
    FROM sessions JOIN usual USING (stream) GROUP BY stream
)
SELECT stream, count(*), $sign * any_value(cut), avg((bad > cut)::INTEGER)
FROM sessions JOIN cut USING (stream)
GROUP BY stream
