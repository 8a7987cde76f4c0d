(import "kassette:plugin/log@0.2.0" "write" (func $log (param i32 i32 i32)))
