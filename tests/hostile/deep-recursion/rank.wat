(call $deeper)
unreachable
