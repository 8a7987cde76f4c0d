(import "kassette:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
