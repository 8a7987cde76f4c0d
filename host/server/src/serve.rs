//! `kassette serve`: puts the parts together and runs them.
