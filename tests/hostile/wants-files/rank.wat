(call $folders (i32.const 15000))
(if (i32.load (i32.const 15004)) (then unreachable))
(i32.const 8192)
