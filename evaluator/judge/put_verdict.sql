INSERT OR IGNORE INTO verdicts
    (key, judge, prompt_version, question, passed, score, reason, input_tokens, output_tokens, cost_usd)
VALUES
    (:key, :judge, :prompt_version, :question, :passed, :score, :reason, :input_tokens, :output_tokens, :cost_usd);
