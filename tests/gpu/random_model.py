#!/usr/bin/env python3
"""Writes a model of random weights as Q4_K_M, with the shape of a real one: fast and slow like it, and of no other use.

    random_model.py model.gguf                                 the shape of Mistral 7B: 4.4 GB
    random_model.py small.gguf --layers 2 --width 256 --feed-forward 512 --heads 4 --kv-heads 2 --vocabulary 512

Needs nothing but Python 3. The same arguments make the same file.
"""

import argparse
import itertools
import random
import struct

ALIGNMENT = 32
F32, Q4_K, Q6_K = 0, 12, 14
# Numbers per block, and its bytes.
BLOCKS = {F32: (1, 4), Q4_K: (256, 144), Q6_K: (256, 210)}
U32, I32, FLOAT, BOOL, TEXT, ARRAY = 4, 5, 6, 7, 8, 9
FORMATS = {U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def half(number):
    return struct.pack("<e", number)


def pool(kind, width, blocks=1 << 16):
    """Random blocks whose numbers are spread like those of a trained model: around 0, by 1 / sqrt(width)."""
    size = BLOCKS[kind][1]
    data = bytearray(random.Random(kind).randbytes(blocks * size))

    def put(at, value):
        for offset, byte in enumerate(value):
            data[at + offset :: size] = bytes([byte]) * blocks

    spread = width**-0.5
    if kind == Q4_K:
        # d * scale * q - dmin * min, with scale and min of 0 to 63 and q of 0 to 15: 200 d wide.
        put(0, half(spread / 200))
        put(2, half(7.5 * spread / 200))
    elif kind == Q6_K:
        # d * scale * (q - 32), with scale of -128 to 127 and q of 0 to 63: 1,370 d wide.
        put(208, half(spread / 1370))
    return bytes(data)


def write_numbers(file, kind, count, pools, place):
    """`count` numbers. `place` says where in the pool to begin, so that tensors differ."""
    if kind == F32:
        file.write(struct.pack("<f", 1.0) * count)
        return
    per_block, size = BLOCKS[kind]
    data = pools[kind]
    left = count // per_block * size
    at = place * 7919 * size % len(data)
    while left > 0:
        part = data[at : at + left]
        file.write(part)
        left -= len(part)
        at = 0


def tensors(shape):
    """Name, dimensions (the row first) and type of each, as llama.cpp's Q4_K_M chooses."""
    width, vocabulary = shape.width, shape.vocabulary
    kv = width // shape.heads * shape.kv_heads
    yield "token_embd.weight", [width, vocabulary], Q4_K
    yield "output_norm.weight", [width], F32
    yield "output.weight", [width, vocabulary], Q6_K
    n = shape.layers
    for layer in range(n):
        # `use_more_bits` of llama-quant.cpp.
        more = layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2
        better = Q6_K if more else Q4_K
        for name, dims, kind in [
            ("attn_norm", [width], F32),
            ("attn_q", [width, width], Q4_K),
            ("attn_k", [width, kv], Q4_K),
            ("attn_v", [width, kv], better),
            ("attn_output", [width, width], Q4_K),
            ("ffn_norm", [width], F32),
            ("ffn_gate", [width, shape.feed_forward], Q4_K),
            ("ffn_up", [width, shape.feed_forward], Q4_K),
            ("ffn_down", [shape.feed_forward, width], better),
        ]:
            yield f"blk.{layer}.{name}.weight", dims, kind


def vocabulary(size):
    """A byte-level vocabulary: a token for each byte, two of a chat template, and words that no text becomes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = itertools.count(256)
    tokens = [chr(byte if byte in plain else next(others)) for byte in range(256)]
    tokens += ["<|im_start|>", "<|im_end|>"]
    tokens += [f"w{number}" for number in range(len(tokens), size)]
    kinds = [3 if token.startswith("<|") else 1 for token in tokens]
    return tokens, kinds


def metadata(shape):
    tokens, kinds = vocabulary(shape.vocabulary)
    return [
        ("general.architecture", TEXT, "llama"),
        ("general.name", TEXT, "Random weights"),
        ("general.file_type", U32, 15),
        ("llama.block_count", U32, shape.layers),
        ("llama.context_length", U32, shape.context),
        ("llama.embedding_length", U32, shape.width),
        ("llama.feed_forward_length", U32, shape.feed_forward),
        ("llama.attention.head_count", U32, shape.heads),
        ("llama.attention.head_count_kv", U32, shape.kv_heads),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT, 1e-5),
        ("llama.rope.freq_base", FLOAT, 1e6),
        ("llama.vocab_size", U32, shape.vocabulary),
        ("tokenizer.ggml.model", TEXT, "gpt2"),
        ("tokenizer.ggml.pre", TEXT, "default"),
        ("tokenizer.ggml.tokens", (ARRAY, TEXT), tokens),
        ("tokenizer.ggml.token_type", (ARRAY, I32), kinds),
        ("tokenizer.ggml.merges", (ARRAY, TEXT), ["a b"]),
        ("tokenizer.ggml.bos_token_id", U32, 256),
        ("tokenizer.ggml.eos_token_id", U32, 257),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", TEXT, TEMPLATE),
    ]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def single(kind, value):
    return text(value) if kind == TEXT else struct.pack(FORMATS[kind], value)


def value_bytes(kind, value):
    if isinstance(kind, tuple):
        return struct.pack("<IIQ", ARRAY, kind[1], len(value)) + b"".join(single(kind[1], one) for one in value)
    return struct.pack("<I", kind) + single(kind, value)


def count_of(dims):
    count = 1
    for dim in dims:
        count *= dim
    return count


def padding(length):
    return b"\0" * (-length % ALIGNMENT)


def write(path, shape):
    entries = metadata(shape)
    all_tensors = list(tensors(shape))
    header = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(entries))
    header += b"".join(text(key) + value_bytes(kind, value) for key, kind, value in entries)
    offset = 0
    for name, dims, kind in all_tensors:
        header += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        per_block, size = BLOCKS[kind]
        offset += count_of(dims) // per_block * size
        offset += len(padding(offset))
    pools = {kind: pool(kind, shape.width) for kind in (Q4_K, Q6_K)}
    with open(path, "wb") as file:
        file.write(header + padding(len(header)))
        for place, (_, dims, kind) in enumerate(all_tensors):
            write_numbers(file, kind, count_of(dims), pools, place)
            file.write(padding(file.tell()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    for name, default in [
        ("layers", 32),
        ("width", 4096),
        ("feed-forward", 14336),
        ("heads", 32),
        ("kv-heads", 8),
        ("vocabulary", 32000),
        ("context", 32768),
    ]:
        parser.add_argument(f"--{name}", type=int, default=default)
    shape = parser.parse_args()
    if shape.width % 256 or shape.feed_forward % 256 or shape.width % shape.heads or shape.vocabulary < 258:
        parser.error("width and feed-forward are multiples of 256, width of heads, and the vocabulary has 258 at least")
    write(shape.path, shape)


if __name__ == "__main__":
    main()
