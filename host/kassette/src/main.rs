//! The Kassette payment checkout gateway.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    kassette_server::main()
}
