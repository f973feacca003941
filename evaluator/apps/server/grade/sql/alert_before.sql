-- How many sessions each stream has, their mean, and mean and deviation of the values up to a cap, which is $times the mean.
SELECT stream, count(*), avg(bad), avg(least(bad, cap)), stddev_pop(least(bad, cap))
FROM (SELECT stream, bad, coalesce($times * avg(bad) OVER (PARTITION BY stream), 'inf'::DOUBLE) AS cap FROM ({sessions}))
GROUP BY stream
