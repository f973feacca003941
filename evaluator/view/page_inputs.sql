-- The first messages of the sessions of a page. Sessions of one batch are stored together: it leaves little to read.
SELECT session_id, left(user_input, 300) AS user_input
FROM derived.turns
WHERE turn = 1
  AND batch IN ($page_batches)
  AND session_id IN ($page_ids)
