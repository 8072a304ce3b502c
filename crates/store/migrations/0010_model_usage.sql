-- The usage behind the spending of each call. `is_estimate` is 1 where no provider reported it: for
-- calls that have not ended, were interrupted, or broke off. `is_priced` is 0 where the price of the
-- model is unknown; `usd` is 0 then.
ALTER TABLE model_calls ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_calls ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_calls ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE model_calls ADD COLUMN is_estimate BIGINT NOT NULL DEFAULT 1;
ALTER TABLE model_calls ADD COLUMN is_priced BIGINT NOT NULL DEFAULT 1;
