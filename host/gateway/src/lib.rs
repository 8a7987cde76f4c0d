//! The use cases of a payment: create, route, start, apply, close, poll.
