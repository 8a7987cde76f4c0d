;; The answer stands at 8192: ok, a list of one verdict, eligible.
(data (i32.const 8192) "\00\00\00\00\10\20\00\00\01\00\00\00")
(data (i32.const 8208) "\30\20\00\00\01\00\00\00\00\00\00\00\31\20\00\00\0d\00\00\00")
(data (i32.const 8240) "afound nothing")
