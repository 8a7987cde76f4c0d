(func $deeper (call $deeper) (call $deeper))
