SELECT passed, score, reason, input_tokens, output_tokens, cost_usd FROM verdicts WHERE key = ?;
