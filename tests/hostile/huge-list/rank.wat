;; Half a million empty verdicts.
(drop (memory.grow (i32.const 200)))
(i32.store (i32.const 32772) (i32.const 65536))
(i32.store (i32.const 32776) (i32.const 500000))
(i32.const 32768)
