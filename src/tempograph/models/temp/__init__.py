"""TeMP, temporal message passing.

`temp_settings` says which parts there are, `encoder` has message passing, imputation and the temporal encoder,
`gated_decoder` the frequency gate and the scores, `temp_model` the model, `cached_temp` the model for prediction.
"""
