-- The models that the project's settings priced in the run's sessions; NULL: none, or not recorded.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS price_overrides VARCHAR[];
