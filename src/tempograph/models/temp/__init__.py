"""TeMP, temporal message passing.

`temp_settings` lists the parts; `encoder` has message passing, imputation and the temporal encoder,
`gated_decoder` the frequency gate and the scores, `temp_model` the model, `cached_temp` the model
for prediction. The layers, such as the GRU with decay, are in `nn.temporal` and `nn.structure`.
"""
