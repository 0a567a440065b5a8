"""Model files for llama.cpp's server, from and to folders as transformers has them."""
