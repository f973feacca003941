-- The metrics that were measured.
SELECT DISTINCT metric FROM scores WHERE value IS NOT NULL ORDER BY metric LIMIT $limit
