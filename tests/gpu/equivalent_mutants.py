"""Mistakes in the lessons' pseudocode that change nothing: by function, as `mutation` describes them."""

from __future__ import annotations

EQUIVALENT = {
    # The shift of a softmax cancels, whichever score of the row it is; and j - 1 visits all of a row's scores
    # too, from the last on, where the largest or the sum of all is taken.
    "attention_serial": ["range(N) -> range(N - 1)", "S[i, j] -> S[i, j - 1]", "S[i, j] -> S[i, j - 1]"],
    "softmax_rows": ["range(N) -> range(N - 1)", "S[i, j] -> S[i, j - 1]", "S[i, j] -> S[i, j - 1]"],
    "softmax_row": [
        "X[r] - max(X[r]) -> X[r] + max(X[r])",
        "max(X[r]) -> min(X[r])",
        "X[r] -> X[r - 1]",
    ],
    "product_tiled": ["32 -> 33", "32 -> 33", "32 -> 33"],
    # All words of a line hold the same number, all of them are added up, the only place is also the last one,
    # and the thread before takes an element as well as the own one.
    "lay_ring": ["ring[line, word] -> ring[line, word - 1]"],
    "chase": ["end[0] -> end[0 - 1]"],
    "reread": ["values[block, word, thread] -> values[block, word - 1, thread]"],
    "many_ways": ["order[thread] -> order[thread - 1]"],
    # More zeros behind the numbers add nothing; the shift cancels here, too.
    "sum_by_tree": ["256 - len(tile) -> 256 + len(tile)", "256 -> 257"],
    "softmax_columns": ["range(N) -> range(N - 1)", "ST[j, i] -> ST[j - 1, i]", "ST[j, i] -> ST[j - 1, i]"],
    # Every result is 1; 16-bit numbers add up exactly in 32 bits, in any order; all of these are zero.
    "sum_of_squares": ["y[i] -> y[i - 1]"],
    "sum_two_ways": ["narrow[0] -> narrow[0 - 1]", "wide[0] -> wide[0 - 1]", "x[i] -> x[i - 1]"],
    "shift_two_ways": ["apart[i] -> apart[i - 1]"],
    # A transpose is the same with any tile; a number's place within its block, a warp of zeros more and the
    # order of warps do not change a sum.
    "turn_tile": ["32 -> 33", "32 -> 33"],
    "sum_by_shuffles": [
        "s.flat[i - tile.start] -> s.flat[i - tile.start - 1]",
        "8 -> 9",
        "s[warp, :hop] -> s[warp - 1, :hop]",
        "s[warp, hop:2 * hop] -> s[warp - 1, hop:2 * hop]",
    ],
    "sum_at_once": ["total[0] -> total[0 - 1]", "sums[b] -> sums[b - 1]"],
    "tally_floats": ["total[0] -> total[0 - 1]", "x[i] -> x[i - 1]"],
    "tally_integers": ["count[0] -> count[0 - 1]", "whole[i] -> whole[i - 1]"],
    # Sizes of tiles, slabs and rings decide nothing about a sum; a list that holds every tile may be walked
    # in any order.
    "one_tile": ["16 -> 17", "8 -> 9", "16 -> 17"],
    "through_shared": ["128 -> 129", "128 -> 129", "64 -> 65", "16 -> 17"],
    "ring": [
        "128 -> 129",
        "128 -> 129",
        "without: if len(under_way) == 3:",
        "64 -> 65",
        "len(under_way) == 3 -> len(under_way) != 3",
        "3 -> 4",
        "0 -> 1",
    ],
    "one_buffer": ["64 -> 65", "256 -> 257", "64 -> 65"],
    "pipeline": ["128 -> 129", "256 -> 257", "64 -> 65"],
    "gemm": [
        "2 -> 3",
        "high[i] -> high[i - 1]",
        "wide[j] -> wide[j - 1]",
        "64 -> 65",
        "128 -> 129",
        "256 -> 257",
    ],
    # Which block has a share decides nothing, nor how large tiles are that cover the same, nor a cut of K.
    "multiply_shares": ["shares[block] -> shares[block - 1]", "128 -> 129", "256 -> 257"],
    "multiply_few": [
        "64 * -(-K // 128) -> 64 + -(-K // 128)",
        "64 -> 65",
        "128 -> 129",
        "-K // 128 -> -K * 128",
        "128 -> 129",
        "128 -> 129",
    ],
    # The finite shift of a row of nothing but minus infinity is arbitrary; `own[t - 1]` visits the same keys
    # from the last on; the logarithm of 0 is minus infinity anyway.
    "softmax_three": ["0.0 -> 1.0", "0.0 -> 1.0"],
    "softmax_online": ["0.0 -> 1.0", "0.0 -> 1.0", "0.0 -> 1.0"],
    "softmax_on_chip": [
        "max(row) > -np.inf -> max(row) >= -np.inf",
        "0.0 -> 1.0",
        "0.0 -> 1.0",
        "0.0 -> 1.0",
    ],
    # Which cluster takes a row decides nothing, nor whether two take it.
    "softmax_long": [
        "range(cluster, len(X), clusters) -> range(cluster - 1, len(X), clusters)",
        "range(cluster, len(X), clusters) -> range(cluster, len(X), clusters - 1)",
    ],
    "flash_rows": ["0.0 -> 1.0", "4 -> 5", "0.0 -> 1.0"],
    "flash_tiles": ["0.0 -> 1.0", "64 -> 65", "z > 0 -> z >= 0", "own[t] -> own[t - 1]", "0.0 -> 1.0"],
    "combine": ["top > -np.inf -> top >= -np.inf"],
    # A row without a key is zeros, whatever its sum of nothing is divided by; a tile of another size covers
    # the same keys, and a block may have any list, as long as each list is somebody's.
    "flash_halves": ["128 -> 129", "0.0 -> 1.0"],
    "flash_mma": ["128 -> 129", "64 -> 65", "0.0 -> 1.0", "1.0 -> 2.0", "1.0 -> 2.0"],
    "flash_wgmma": ["128 -> 129", "0.0 -> 1.0", "128 -> 129", "1.0 -> 2.0", "1.0 -> 2.0"],
    "flash_hopper": [
        "order[:, block] -> order[:, block - 1]",
        "128 -> 129",
        "0.0 -> 1.0",
        "128 -> 129",
        "1.0 -> 2.0",
        "128 -> 129",
        "1.0 -> 2.0",
    ],
    "flash_steps": [
        "128 -> 129",
        "top > -np.inf -> top >= -np.inf",
        "0.0 -> 1.0",
        "own[t] -> own[t - 1]",
        "0.0 -> 1.0",
    ],
    # The first maximum is minus infinity, so nothing is left of what sum and row began with.
    "decode_tiles": ["0.0 -> 1.0", "16 -> 17"],
    # The keys of a block decide nothing about its sums.
    "backward": ["128 -> 129"],
}
"""Mutants that do the same as their original."""
