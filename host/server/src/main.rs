//! The Kassette payment checkout gateway.
fn main() {}
