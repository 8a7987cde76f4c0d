(component (import "kassette:plugin/secrets@0.1.0" (instance)))
