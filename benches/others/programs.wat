;; The programs of fixtures/bench/vm.vmasm, by the same algorithms. What differs: buffers are parts of one memory that stays, addresses have
;; 32 bits, and a multiplication with addition is two instructions.
(module
  (memory 16)

  (func (export "empty"))

  (func (export "loop") (param $n i32) (result i32)
    (local $i i32)
    (loop $again
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $i))

  (func $fib (export "fib") (param $n i32) (result i32)
    (if (i32.lt_s (local.get $n) (i32.const 2)) (then (return (local.get $n))))
    (i32.add
      (call $fib (i32.sub (local.get $n) (i32.const 1)))
      (call $fib (i32.sub (local.get $n) (i32.const 2)))))

  (func $increment (param $value i32) (result i32)
    (i32.add (local.get $value) (i32.const 1)))

  (func (export "internal_call") (param $n i32) (result i32)
    (local $i i32)
    (loop $again
      (local.set $i (call $increment (local.get $i)))
      (br_if $again (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $i))

  ;; Repeats the first four bytes of a part of the memory up to its end, by copies of growing length.
  (func $repeat (param $start i32) (param $size i32)
    (local $done i32) (local $length i32)
    (local.set $done (i32.const 4))
    (loop $again
      (local.set $length (i32.sub (local.get $size) (local.get $done)))
      (if (i32.gt_u (local.get $length) (local.get $done)) (then (local.set $length (local.get $done))))
      (memory.copy (i32.add (local.get $start) (local.get $done)) (local.get $start) (local.get $length))
      (local.set $done (i32.add (local.get $done) (local.get $length)))
      (br_if $again (i32.lt_u (local.get $done) (local.get $size)))))

  (func (export "buffer_reduce") (param $n i32) (result i32)
    (local $i i32) (local $sum i32)
    (i32.store (i32.const 0) (i32.const 1))
    (call $repeat (i32.const 0) (i32.shl (local.get $n) (i32.const 2)))
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (i32.load (i32.shl (local.get $i) (i32.const 2)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $sum))

  (func (export "matmul") (param $n i32) (result f32)
    (local $size i32) (local $b i32) (local $c i32)
    (local $row i32) (local $column i32) (local $k i32) (local $base i32) (local $sum f32)
    (local.set $size (i32.shl (i32.mul (local.get $n) (local.get $n)) (i32.const 2)))
    (local.set $b (local.get $size))
    (local.set $c (i32.shl (local.get $size) (i32.const 1)))
    (f32.store (i32.const 0) (f32.const 1.5))
    (call $repeat (i32.const 0) (local.get $size))
    (f32.store (local.get $b) (f32.const 0.5))
    (call $repeat (local.get $b) (local.get $size))
    (loop $rows
      (local.set $column (i32.const 0))
      (loop $columns
        (local.set $k (i32.const 0))
        (local.set $sum (f32.const 0))
        (local.set $base (i32.mul (local.get $row) (local.get $n)))
        (loop $products
          (local.set $sum
            (f32.add
              (local.get $sum)
              (f32.mul
                (f32.load (i32.shl (i32.add (local.get $base) (local.get $k)) (i32.const 2)))
                (f32.load
                  (i32.add
                    (local.get $b)
                    (i32.shl
                      (i32.add (i32.mul (local.get $k) (local.get $n)) (local.get $column))
                      (i32.const 2)))))))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $products (i32.lt_s (local.get $k) (local.get $n))))
        (f32.store
          (i32.add (local.get $c) (i32.shl (i32.add (local.get $base) (local.get $column)) (i32.const 2)))
          (local.get $sum))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $columns (i32.lt_s (local.get $column) (local.get $n))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_s (local.get $row) (local.get $n))))
    (f32.load (i32.sub (i32.add (local.get $c) (local.get $size)) (i32.const 4))))

  (func (export "sieve") (param $n i32) (result i32)
    (local $i i32) (local $j i32) (local $count i32)
    (memory.fill (i32.const 0) (i32.const 0) (local.get $n))
    (local.set $i (i32.const 2))
    (block $end
      (loop $numbers
        (br_if $end (i32.ge_s (local.get $i) (local.get $n)))
        (if (i32.eqz (i32.load8_u (local.get $i)))
          (then
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            ;; The square of a number above 46340 has more than 31 bits; the original counts in 64.
            (local.set $j (i32.mul (local.get $i) (local.get $i)))
            (if (i32.le_u (local.get $i) (i32.const 46340))
              (then
                (block $done
                  (loop $multiples
                    (br_if $done (i32.ge_s (local.get $j) (local.get $n)))
                    (i32.store8 (local.get $j) (i32.const 1))
                    (local.set $j (i32.add (local.get $j) (local.get $i)))
                    (br $multiples)))))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $numbers)))
    (local.get $count)))
