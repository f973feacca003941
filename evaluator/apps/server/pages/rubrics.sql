-- What a label may be about: the metrics that were measured, and the names of scores that were given.
SELECT DISTINCT metric FROM scores ORDER BY metric LIMIT $limit
