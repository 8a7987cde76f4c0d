//! The operators' API, on its own listener.
