//! The behavioural suite.
