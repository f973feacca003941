-- The rows that lose to an incoming row of the same id. The lookup is bounded by the batch's times.
DELETE FROM {table} AS present
USING incoming
WHERE present.{time} BETWEEN $first AND $last AND {same} AND {incoming_rank} > {present_rank}
