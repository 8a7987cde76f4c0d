;; A hundred verdicts whose ids are the same megabyte: the host must not copy it a hundred times.
(local $at i32)
(drop (memory.grow (i32.const 64)))
(memory.fill (i32.const 1048576) (i32.const 97) (i32.const 1048576))
(local.set $at (i32.const 65536))
(loop $more
  (i32.store (local.get $at) (i32.const 1048576))
  (i32.store offset=4 (local.get $at) (i32.const 1048576))
  (local.set $at (i32.add (local.get $at) (i32.const 24)))
  (br_if $more (i32.lt_u (local.get $at) (i32.const 67936))))
(i32.store (i32.const 32772) (i32.const 65536))
(i32.store (i32.const 32776) (i32.const 100))
(i32.const 32768)
