;; Grows a table until it is refused.
(loop $again
  (br_if $again
    (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1))))
unreachable
