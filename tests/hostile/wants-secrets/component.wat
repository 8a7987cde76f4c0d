(component (import "kassette:plugin/secrets@0.2.0" (instance)))
