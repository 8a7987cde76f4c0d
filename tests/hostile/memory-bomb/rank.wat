;; Grows until it is refused, then traps as an allocator does.
(loop $again
  (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
unreachable
