ALTER TABLE runs ADD COLUMN IF NOT EXISTS thresholds JSON;   -- of the gates by metric, as ">= 0.9"; NULL: not recorded
