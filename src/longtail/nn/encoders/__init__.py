"""Texts to vectors.

tokenizers.py, tokens.py, token_cache.py  texts to token ids; many texts as one array; tokenise each text once
device_tokens.py, layouts.py   batches of tokens on the device; padded, packed and grouped layouts in memory
encoder_names.py, build.py     encoders by name; build, load and compare them (start here)
bag_and_gru.py, transformer.py, transformer_layer.py  the networks
pretrained.py                  how folders of pretrained networks are read
fused_transformer.py, cuda_graphs.py   the transformer in Triton kernels; its kernels recorded and replayed on a GPU
encode.py          many texts to vectors, for inference
text_encoder.py    `TextEncoder`: a trained encoder and its tokenizer as plain data, part of saved models
pretrained_words.py  the word vectors of a pretrained encoder
word_vector_encoders.py   bags of word vectors and convolutions, with residual_blocks.py, convolution_products.py,
                          fast_dropout.py; word_runs.py: texts as weighted lists of words

May import `nn.training`, `nn.kernels` and `nn.extra`. Only
text_encoder.py, token_cache.py and encoder_names.py load without torch.
"""
