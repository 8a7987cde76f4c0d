(i32.const 0x7ffffff0)
