;; A list that is longer than the memory it stands in.
(i32.store (i32.const 32776) (i32.const 0x00ffffff))
(i32.const 32768)
