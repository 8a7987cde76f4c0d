//! The public API: its edge, its handlers, its OpenAPI document.
