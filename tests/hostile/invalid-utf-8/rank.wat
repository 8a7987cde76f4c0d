;; One verdict whose id is no text.
(i32.store8 (i32.const 60000) (i32.const 0xff))
(i32.store (i32.const 40000) (i32.const 60000))
(i32.store (i32.const 40004) (i32.const 1))
(i32.store (i32.const 32772) (i32.const 40000))
(i32.store (i32.const 32776) (i32.const 1))
(i32.const 32768)
