"""Twenty-five well-known programs, in the language of `language.py`. Each branches on data, or computes at indices that data give."""


def collatz(i_n):
    i_best = 0
    for i_k in range(1, i_n):
        l_x = L(i_k)
        i_steps = 0
        while l_x != 1:
            if l_x & 1 != 0:
                l_x = l_x * 3 + 1
            else:
                l_x = l_x >> 1
            i_steps += 1
        if i_steps > i_best:
            i_best = i_steps
    return i_best


def insertion(i_n):
    b_v = NEW(L(i_n) * 4)
    i_s = 12345
    for i_i in range(i_n):
        i_s = i_s * 1664525 + 1013904223
        S4(b_v, i_i, i_s >> 8)
    for i_i in range(1, i_n):
        i_v = B4(b_v, i_i)
        i_j = i_i - 1
        while i_j >= 0 and B4(b_v, i_j) > i_v:
            S4(b_v, i_j + 1, B4(b_v, i_j))
            i_j -= 1
        S4(b_v, i_j + 1, i_v)
    return B4(b_v, i_n >> 1)


def edit(i_n):
    b_text = NEW(L(i_n) * 2)
    b_row = NEW(L(i_n) * 4 + 4)
    for i_i in range(i_n):
        S1(b_text, i_i, i_i * 7 % 5)
        S1(b_text, i_n + i_i, i_i * 3 % 5)
    i_j = 0
    while i_j <= i_n:
        S4(b_row, i_j, i_j)
        i_j += 1
    i_i = 1
    while i_i <= i_n:
        i_diagonal = B4(b_row, 0)
        S4(b_row, 0, i_i)
        i_j = 1
        while i_j <= i_n:
            i_above = B4(b_row, i_j)
            i_least = i_diagonal + (B1(b_text, i_i - 1) != B1(b_text, i_n + i_j - 1))
            if i_above + 1 < i_least:
                i_least = i_above + 1
            i_left = B4(b_row, i_j - 1) + 1
            if i_left < i_least:
                i_least = i_left
            i_diagonal = i_above
            S4(b_row, i_j, i_least)
            i_j += 1
        i_i += 1
    return B4(b_row, i_n)


def binary_search(i_n):
    b_v = NEW(L(i_n) * 4)
    for i_i in range(i_n):
        S4(b_v, i_i, i_i * 3)
    i_sum = 0
    i_most = i_n * 3
    for i_k in range(i_n):
        i_key = REMU(i_k * 7919, i_most)
        i_low = 0
        i_high = i_n
        while i_low < i_high:
            i_middle = i_low + i_high >> 1
            if B4(b_v, i_middle) < i_key:
                i_low = i_middle + 1
            else:
                i_high = i_middle
        i_sum += i_low
    return i_sum


def sieve(i_n):
    b_crossed = NEW(L(i_n))
    i_primes = 0
    for i_k in range(2, i_n):
        if B1(b_crossed, i_k) == 0:
            i_primes += 1
            i_multiple = i_k * i_k
            while i_multiple < i_n:
                S1(b_crossed, i_multiple, 1)
                i_multiple += i_k
    return i_primes


def euclid(i_n):
    i_sum = 0
    for i_a in range(1, i_n):
        for i_b in range(1, i_a):
            i_x = i_a
            i_y = i_b
            while i_y != 0:
                i_r = i_x % i_y
                i_x = i_y
                i_y = i_r
            i_sum += i_x
    return i_sum


def _fib(i_n):
    if i_n < 2:
        return i_n
    return _fib(i_n - 1) + _fib(i_n - 2)


def fibonacci(i_n):
    return _fib(i_n)


def matmul(i_n):
    l_bytes = L(i_n * i_n) * 8
    b_a = NEW(l_bytes)
    b_b = NEW(l_bytes)
    b_c = NEW(l_bytes)
    for i_i in range(i_n * i_n):
        SD(b_a, i_i, D(i_i % 7 - 3))
        SD(b_b, i_i, D(i_i % 5 - 2) * 0.5)
    for i_i in range(i_n):
        for i_j in range(i_n):
            d_sum = 0.0
            for i_k in range(i_n):
                d_sum += BD(b_a, i_i * i_n + i_k) * BD(b_b, i_k * i_n + i_j)
            SD(b_c, i_i * i_n + i_j, d_sum)
    d_all = 0.0
    for i_i in range(i_n * i_n):
        d_all += BD(b_c, i_i) * D(i_i % 3)
    return DI(d_all)


def _queens(i_all, i_columns, i_left, i_right):
    if i_columns == i_all:
        return 1
    i_found = 0
    i_free = i_all & ~(i_columns | i_left | i_right)
    while i_free != 0:
        i_bit = i_free & 0 - i_free
        i_free -= i_bit
        i_found += _queens(i_all, i_columns | i_bit, (i_left | i_bit) << 1, (i_right | i_bit) >> 1)
    return i_found


def queens(i_n):
    return _queens((1 << i_n) - 1, 0, 0, 0)


def _quicksort(b_v, i_first, i_last):
    i_low = i_first
    i_high = i_last
    i_pivot = B4(b_v, i_first + i_last >> 1)
    while i_low <= i_high:
        while B4(b_v, i_low) < i_pivot:
            i_low += 1
        while B4(b_v, i_high) > i_pivot:
            i_high -= 1
        if i_low <= i_high:
            i_t = B4(b_v, i_low)
            S4(b_v, i_low, B4(b_v, i_high))
            S4(b_v, i_high, i_t)
            i_low += 1
            i_high -= 1
    i_calls = 1
    if i_first < i_high:
        i_calls += _quicksort(b_v, i_first, i_high)
    if i_low < i_last:
        i_calls += _quicksort(b_v, i_low, i_last)
    return i_calls


def quicksort(i_n):
    b_v = NEW(L(i_n) * 4)
    i_s = 1
    for i_i in range(i_n):
        i_s = i_s * 1103515245 + 12345
        S4(b_v, i_i, i_s >> 4)
    i_calls = _quicksort(b_v, 0, i_n - 1)
    return B4(b_v, i_n >> 1) ^ i_calls


def _sift(b_v, i_root, i_end):
    i_value = B4(b_v, i_root)
    i_child = i_root * 2 + 1
    while i_child < i_end:
        if i_child + 1 < i_end and B4(b_v, i_child + 1) > B4(b_v, i_child):
            i_child += 1
        if B4(b_v, i_child) <= i_value:
            break
        S4(b_v, i_root, B4(b_v, i_child))
        i_root = i_child
        i_child = i_root * 2 + 1
    S4(b_v, i_root, i_value)
    return i_root


def heapsort(i_n):
    b_v = NEW(L(i_n) * 4)
    i_s = 7
    for i_i in range(i_n):
        i_s = i_s * 1664525 + 1013904223
        S4(b_v, i_i, SHRS(i_s, 8))
    i_depth = 0
    for i_i in range((i_n >> 1) - 1, -1, -1):
        i_depth += _sift(b_v, i_i, i_n)
    for i_i in range(i_n - 1, 0, -1):
        i_t = B4(b_v, 0)
        S4(b_v, 0, B4(b_v, i_i))
        S4(b_v, i_i, i_t)
        i_depth += _sift(b_v, 0, i_i)
    return B4(b_v, i_n >> 1) ^ i_depth


def shellsort(i_n):
    b_v = NEW(L(i_n) * 8)
    l_s = 88172645463325252
    for i_i in range(i_n):
        l_s = l_s ^ l_s << 13
        l_s = l_s ^ l_s >> 7
        l_s = l_s ^ l_s << 17
        S8(b_v, i_i, SHRS(l_s, 16))
    i_gap = i_n >> 1
    while i_gap > 0:
        for i_i in range(i_gap, i_n):
            l_v = B8(b_v, i_i)
            i_j = i_i
            while i_j >= i_gap and B8(b_v, i_j - i_gap) > l_v:
                S8(b_v, i_j, B8(b_v, i_j - i_gap))
                i_j -= i_gap
            S8(b_v, i_j, l_v)
        i_gap = i_gap >> 1
    return I(B8(b_v, i_n >> 1))


def crc32(i_n):
    i_crc = -1
    for i_i in range(i_n):
        i_crc = i_crc ^ i_i * 31 & 255
        for i_bit in range(8):
            i_crc = i_crc >> 1 ^ (0 - (i_crc & 1) & -306674912)
    return ~i_crc


def fnv(i_n):
    b_text = NEW(L(i_n))
    for i_i in range(i_n):
        S1(b_text, i_i, i_i * i_i)
    l_hash = -3750763034362895579
    for i_i in range(i_n):
        l_hash = (l_hash ^ L(B1(b_text, i_i))) * 1099511628211
    return I(l_hash ^ l_hash >> 32)


def mandelbrot(i_n):
    i_inside = 0
    for i_y in range(i_n):
        for i_x in range(i_n):
            d_re = D(i_x) * 3.0 / D(i_n) - 2.0
            d_im = D(i_y) * 2.0 / D(i_n) - 1.0
            d_a = 0.0
            d_b = 0.0
            i_k = 0
            while i_k < 50 and d_a * d_a + d_b * d_b < 4.0:
                d_t = d_a * d_a - d_b * d_b + d_re
                d_b = d_a * d_b * 2.0 + d_im
                d_a = d_t
                i_k += 1
            i_inside += i_k
    return i_inside


def bodies(i_n):
    b_x = NEW(64)
    b_v = NEW(64)
    for i_i in range(8):
        SD(b_x, i_i, D(i_i * 5 % 8) + 0.5)
    for i_step in range(i_n):
        for i_i in range(8):
            d_force = 0.0
            for i_j in range(8):
                if i_i != i_j:
                    d_r = BD(b_x, i_j) - BD(b_x, i_i)
                    d_force += d_r / (SQRT(ABS(d_r)) + 0.125)
            SD(b_v, i_i, BD(b_v, i_i) * 0.99 + d_force * 0.01)
        for i_i in range(8):
            SD(b_x, i_i, BD(b_x, i_i) + BD(b_v, i_i) * 0.01)
    l_bits = BITS(BD(b_x, 3))
    return I(l_bits ^ l_bits >> 32)


def subsequence(i_n):
    b_a = NEW(L(i_n))
    b_b = NEW(L(i_n))
    b_row = NEW(L(i_n) * 4 + 4)
    for i_i in range(i_n):
        S1(b_a, i_i, i_i * i_i % 11)
        S1(b_b, i_i, i_i * 3 % 7)
    for i_i in range(i_n):
        i_a = B1(b_a, i_i)
        i_diagonal = 0
        for i_j in range(i_n):
            i_above = B4(b_row, i_j + 1)
            if B1(b_b, i_j) == i_a:
                S4(b_row, i_j + 1, i_diagonal + 1)
            else:
                S4(b_row, i_j + 1, MAX(i_above, B4(b_row, i_j)))
            i_diagonal = i_above
    return B4(b_row, i_n)


def knapsack(i_n):
    b_best = NEW(L(i_n) * 4 + 4)
    for i_item in range(1, 40):
        i_weight = i_item * 7 % 23 + 1
        i_value = i_item * 13 % 37 + 1
        for i_w in range(i_n, i_weight - 1, -1):
            i_with = B4(b_best, i_w - i_weight) + i_value
            if i_with > B4(b_best, i_w):
                S4(b_best, i_w, i_with)
    return B4(b_best, i_n)


def paths(i_n):
    b_d = NEW(L(i_n * i_n) * 4)
    for i_i in range(i_n):
        for i_j in range(i_n):
            S4(b_d, i_i * i_n + i_j, (i_i * 17 + i_j * 31) % 97 + 1)
    for i_k in range(i_n):
        for i_i in range(i_n):
            i_ik = B4(b_d, i_i * i_n + i_k)
            for i_j in range(i_n):
                i_through = i_ik + B4(b_d, i_k * i_n + i_j)
                if i_through < B4(b_d, i_i * i_n + i_j):
                    S4(b_d, i_i * i_n + i_j, i_through)
    i_sum = 0
    for i_i in range(i_n * i_n):
        i_sum += B4(b_d, i_i)
    return i_sum


def counting_sort(i_n):
    b_v = NEW(L(i_n) * 2)
    b_count = NEW(1024)
    b_sorted = NEW(L(i_n) * 2)
    i_s = 99
    for i_i in range(i_n):
        i_s = i_s * 1664525 + 1013904223
        S2(b_v, i_i, i_s >> 16)
        i_k = i_s >> 24
        S4(b_count, i_k, B4(b_count, i_k) + 1)
    i_sum = 0
    for i_k in range(256):
        i_c = B4(b_count, i_k)
        S4(b_count, i_k, i_sum)
        i_sum += i_c
    for i_i in range(i_n):
        i_v = B2(b_v, i_i)
        i_k = i_v >> 8
        i_at = B4(b_count, i_k)
        S4(b_count, i_k, i_at + 1)
        S2(b_sorted, i_at, i_v)
    return B2(b_sorted, i_n >> 1) + B2(b_sorted, i_n - 1)


def life(i_n):
    i_size = i_n * i_n
    b_a = NEW(L(i_size))
    b_b = NEW(L(i_size))
    for i_i in range(i_size):
        S1(b_a, i_i, i_i * i_i % 7 & 1)
    i_alive = 0
    for i_step in range(4):
        for i_y in range(1, i_n - 1):
            for i_x in range(1, i_n - 1):
                i_at = i_y * i_n + i_x
                i_around = B1(b_a, i_at - 1) + B1(b_a, i_at + 1)
                i_around += B1(b_a, i_at - i_n - 1) + B1(b_a, i_at - i_n) + B1(b_a, i_at - i_n + 1)
                i_around += B1(b_a, i_at + i_n - 1) + B1(b_a, i_at + i_n) + B1(b_a, i_at + i_n + 1)
                if i_around == 3:
                    S1(b_b, i_at, 1)
                else:
                    if i_around == 2:
                        S1(b_b, i_at, B1(b_a, i_at))
                    else:
                        S1(b_b, i_at, 0)
        i_alive = 0
        for i_i in range(i_size):
            i_cell = B1(b_b, i_i)
            i_alive += i_cell
            S1(b_a, i_i, i_cell)
    return i_alive


def hash_table(i_n):
    b_keys = NEW(32768)
    b_counts = NEW(32768)
    l_s = 1
    i_probes = 0
    for i_i in range(i_n):
        l_s = l_s * 6364136223846793005 + 1442695040888963407
        i_key = I(l_s >> 52) + 1
        i_at = i_key * -1640531527 >> 19
        while B4(b_keys, i_at) != 0 and B4(b_keys, i_at) != i_key:
            i_at = i_at + 1 & 8191
            i_probes += 1
        S4(b_keys, i_at, i_key)
        S4(b_counts, i_at, B4(b_counts, i_at) + 1)
    return i_probes + B4(b_counts, 77)


def power_modulo(i_n):
    l_modulus = 998244353
    l_sum = 0
    for i_i in range(i_n):
        l_base = L(i_i) + 2
        i_exponent = i_i * 2654435 >> 8
        l_result = 1
        while i_exponent != 0:
            if i_exponent & 1 != 0:
                l_result = l_result * l_base % l_modulus
            l_base = l_base * l_base % l_modulus
            i_exponent = i_exponent >> 1
        l_sum += l_result
    return I(l_sum)


def _find(b_parents, i_x):
    while B4(b_parents, i_x) != i_x:
        S4(b_parents, i_x, B4(b_parents, B4(b_parents, i_x)))
        i_x = B4(b_parents, i_x)
    return i_x


def union_find(i_n):
    b_parents = NEW(L(i_n) * 4)
    for i_i in range(i_n):
        S4(b_parents, i_i, i_i)
    i_s = 3
    i_groups = i_n
    for i_i in range(i_n):
        i_s = i_s * 1664525 + 1013904223
        i_a = _find(b_parents, REMU(i_s >> 4, i_n))
        i_s = i_s * 1664525 + 1013904223
        i_b = _find(b_parents, REMU(i_s >> 4, i_n))
        if i_a != i_b:
            S4(b_parents, i_a, i_b)
            i_groups -= 1
    return i_groups


def smooth(i_n):
    b_x = NEW(L(i_n) * 4)
    for i_i in range(i_n):
        SF(b_x, i_i, F(i_i * 37 % 101))
    for i_step in range(10):
        f_before = BF(b_x, 0)
        for i_i in range(1, i_n - 1):
            f_here = BF(b_x, i_i)
            SF(b_x, i_i, f_before * 0.25 + f_here * 0.5 + BF(b_x, i_i + 1) * 0.25)
            f_before = f_here
    i_sum = 0
    for i_i in range(i_n):
        i_sum = i_sum * 31 + BITS(BF(b_x, i_i))
    return i_sum


# The argument of each program.
INPUTS = {
    "collatz": 1500, "insertion": 300, "edit": 150, "binary_search": 4000, "sieve": 20000, "euclid": 100, "fibonacci": 20, "matmul": 30, "queens": 7,
    "quicksort": 2000, "heapsort": 1500, "shellsort": 1500, "crc32": 4000, "fnv": 10000, "mandelbrot": 40, "bodies": 150, "subsequence": 150,
    "knapsack": 1000, "paths": 30, "counting_sort": 10000, "life": 50, "hash_table": 3000, "power_modulo": 1500, "union_find": 3000, "smooth": 3000,
}
